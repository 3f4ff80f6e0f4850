%% The application: services of a node for permanent jobs and monitors.
-module(speedwell_app).
-behaviour(application).

-export([start/2, stop/1]).

start(_, _) ->
    erlperf_sup:start_link().

stop(_) ->
    ok.
