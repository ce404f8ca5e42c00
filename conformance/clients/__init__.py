"""Judges client libraries: the suite plays the server, and a small driver runs the library.

``protocol`` has the lines between suite and driver, ``driver`` the process. ``server`` lets the
engine of the reference server answer on a socket, and alters its replies as a row of ``cases``
says. ``judging`` plays one case, ``campaign`` all of them, several drivers at a time;
``results`` makes of it the results that runs on servers have, too.

``programs`` makes up whole programs. ``program_player`` plays one, beside a partner of the server,
``program_search`` looks for one that shows what no directed case explains (``program_features``),
and shrinks it.

The roles are those of an in-process fake of a peer, scripted by data: the same idea underlies
Autobahn's fuzzing server for WebSocket clients.
"""
