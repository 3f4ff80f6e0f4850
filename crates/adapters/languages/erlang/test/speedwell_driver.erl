%% A protocol client for tests: starts the harness as Speedwell does, on descriptors 3 and 4.
-module(speedwell_driver).

-export([start/0, start/2, tell/3, ask/4, until/2, close/1]).

start() -> start([], []).

%% Starts a harness with additional arguments of erl and environment variables.
start(Arguments, Environment) ->
    Ebin = filename:dirname(code:which(speedwell_harness)),
    All = ["-noshell", "-noinput", "-boot", "no_dot_erlang", "-setcookie", "speedwell", "-start_epmd", "false",
           "-epmd_module", "speedwell_epmd", "-pa", Ebin] ++ Arguments ++ ["-s", "speedwell_harness"],
    %% A child of this kind has its input and output on descriptors 3 and 4.
    open_port({spawn_executable, filename:join([code:root_dir(), "bin", "erl"])},
              [nouse_stdio, binary, exit_status, {line, 1100000}, {args, All}, {env, [{"SPEEDWELL_FDS", "3,4"} | Environment]}]).

tell(Harness, Verb, Fields) ->
    port_command(Harness, speedwell_wire:encode(Verb, Fields)).

%% Sends a command and returns everything up to one of the verbs.
ask(Harness, Verb, Fields, Ends) ->
    tell(Harness, Verb, Fields),
    until(Harness, Ends).

until(Harness, Ends) ->
    receive
        {Harness, {data, {eol, Line}}} ->
            {Verb, Fields} = speedwell_wire:decode(Line),
            case {Verb, lists:member(Verb, Ends)} of
                %% A warning may come at any time: the machine's clock is slewed now and then.
                {<<"log">>, false} -> until(Harness, Ends);
                {_, true} -> [{Verb, Fields}];
                {_, false} -> [{Verb, Fields} | until(Harness, Ends)]
            end;
        {Harness, {exit_status, Status}} -> [{exit, Status}]
    after 100000 -> error(silent)
    end.

%% Closing the commands would lose the remaining events, so send an orderly `quit`.
close(Harness) ->
    tell(Harness, quit, []),
    until(Harness, []).
