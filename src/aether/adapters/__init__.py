"""Where the world is: the only ring with sockets, files, processes and clocks."""
