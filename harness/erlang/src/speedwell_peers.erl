-module(speedwell_peers).
-export([place/2, stop/0]).
place(_, _) -> node().
stop() -> ok.
