"""The local API of one machine, on a unix socket."""
