%% Runs all tests of this folder, each with a timeout long enough for a busy
%% machine.
-module(speedwell_suite).
-export([start/0]).

-define(LIMIT_S, 120).

start() ->
    logger:set_primary_config(level, error),
    Folder = filename:dirname(code:which(?MODULE)),
    Modules = [list_to_atom(filename:basename(File, ".beam")) || File <- filelib:wildcard(filename:join(Folder, "*_tests.beam"))],
    Tests = [test(Module, Name, atom_to_list(Name)) || Module <- Modules, {Name, 0} <- Module:module_info(exports)],
    halt(case eunit:test([Test || Test <- Tests, Test =/= none], []) of ok -> 0; _ -> 1 end).

test(Module, Name, Text) ->
    case {lists:suffix("_test", Text), lists:suffix("_test_", Text)} of
        {true, _} -> {timeout, ?LIMIT_S, {Module, Name}};
        {_, true} -> {generator, Module, Name};
        _ -> none
    end.
