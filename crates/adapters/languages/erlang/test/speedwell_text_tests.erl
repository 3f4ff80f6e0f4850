-module(speedwell_text_tests).
-include_lib("eunit/include/eunit.hrl").

source(Code) -> erlperf_job:source(Code).

an_expression_is_pasted_into_the_loop_test() ->
    ?assertEqual("-module(benchmark).\n-export([batch/2]).\n\nbatch(0, Result) ->\n    Result;\n"
                 "batch(Count, _) ->\n    batch(Count - 1, begin rand:uniform() end).\n",
                 source(#{runner => "rand:uniform()."})).

the_final_dot_is_forgiven_test() ->
    ?assertEqual(source(#{runner => "rand:uniform()."}), source(#{runner => "rand:uniform()"})).

a_tuple_without_dot_is_a_call_and_with_dot_an_expression_test() ->
    ?assertMatch({_, _}, binary:match(text(#{runner => "{rand, uniform, []}"}), <<"erlang:apply(M, F, A)">>)),
    ?assertMatch({_, _}, binary:match(text(#{runner => "{rand, uniform, []}."}), <<"begin {rand, uniform, []} end">>)).

text(Code) -> list_to_binary(source(Code)).

functions_take_state_and_previous_result_test() ->
    ?assertMatch({_, _}, binary:match(text(#{runner => "r(X) -> X.", init_runner => "1."}), <<"r(State)">>)),
    ?assertMatch({_, _}, binary:match(text(#{runner => "r(X, Y) -> {X, Y}.", init_runner => "1."}), <<"r(State, Result)">>)).

names_of_the_user_are_kept_apart_from_ours_test() ->
    {ok, Ready} = speedwell_code:prepare(#{runner => "Count = 1, Result = 2, Count + Result."}),
    ?assertEqual(3, loop(Ready, 5)),
    {ok, Other} = speedwell_code:prepare(#{runner => "batch() -> 7."}),
    ?assertEqual(7, loop(Other, 5)).

loop(Ready = #{module := Module, batch := Batch, extra := Extra}, Count) ->
    speedwell_code:load(Ready),
    Last = apply(Module, Batch, [Count, undefined | Extra]),
    speedwell_code:unload(Ready),
    Last.

every_form_is_performed_as_often_as_asked_test() ->
    Counter = counters:new(1, []),
    persistent_term:put(?MODULE, Counter),
    Add = "counters:add(persistent_term:get(speedwell_text_tests), 1, 1)",
    Forms = [Add, "r() -> " ++ Add ++ ".", "fun() -> " ++ Add ++ " end.", {counters, add, [Counter, 1, 1]},
             fun() -> counters:add(Counter, 1, 1) end],
    [begin
         {ok, Ready} = speedwell_code:prepare(#{runner => Form}),
         counters:put(Counter, 1, 0),
         loop(Ready, 100),
         ?assertEqual({Form, 100}, {Form, counters:get(Counter, 1)})
     end || Form <- Forms],
    {ok, Twice} = speedwell_code:prepare(#{runner => [{counters, add, [Counter, 1, 1]}, {counters, add, [Counter, 1, 1]}]}),
    counters:put(Counter, 1, 0),
    loop(Twice, 100),
    ?assertEqual(200, counters:get(Counter, 1)),
    persistent_term:erase(?MODULE).

errors_have_the_line_of_the_users_text_test() ->
    Cases = [{"1,\n2,\n  foo(bar", parse, 3, "syntax error before: '.'"},
             {"begin\n  X = 1,\n  Y\nend.", compile, 3, "variable 'Y' is unbound"},
             {"nope().", compile, 1, "function nope/0 undefined"},
             {"r() ->\n  ok;\nr(1) -> 2.", parse, 3, "head mismatch"}],
    [?assertMatch({Text, {error, #{stage := Stage, line := Line, msg := Message, part := runner}}},
                  {Text, speedwell_code:prepare(#{runner => Text})})
     || {Text, Stage, Line, Message} <- Cases].

what_a_function_takes_must_be_given_test() ->
    Cases = [{#{runner => "r(X) -> X."}, "runner/1 requires init_runner function defined"},
             {#{runner => "ok.", init_runner => "i(X) -> X."}, "init_runner/1 requires init function defined"},
             {#{runner => "ok.", done => "d(X) -> X."}, "done/1 requires init function defined"},
             {#{runner => "ok.", init => "i(X) -> X."}, "init takes 1 arguments, at most 0 can be given"}],
    [?assertMatch({error, #{stage := compile, msg := Message}}, speedwell_code:prepare(Code)) || {Code, Message} <- Cases].
