"""How bytes speak: sans-IO codecs and state machines; knows nothing of meshes."""
