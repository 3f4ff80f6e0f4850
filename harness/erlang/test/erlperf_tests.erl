%% Shapes of results, as recorded from erlperf 2.3.0: same arguments, same shapes, and figures in their range.
-module(erlperf_tests).
-export([start_server/0, init/1, handle_call/3, handle_cast/2]).
-include_lib("eunit/include/eunit.hrl").

-define(SLEEP, "timer:sleep(1).").
-define(SHORT, #{sample_duration => 50}).

%% A sleep of 1 ms takes no less. On a crowded machine it may take longer than a whole sample.
-define(assertRate(Count, Ms), ?assertMatch(Few when is_integer(Few) andalso Few >= 0 andalso Few =< Ms, Count)).

basic_is_the_iterations_of_a_sample_test() ->
    ?assertRate(erlperf:run(?SLEEP, ?SHORT), 50),
    ?assertRate(erlperf:run({timer, sleep, [1]}, ?SHORT), 50),
    ?assertRate(erlperf:run(fun() -> timer:sleep(1) end, ?SHORT), 50).

extended_is_a_list_test() ->
    Samples = erlperf:run(?SLEEP, ?SHORT#{report => extended, samples => 4, warmup => 1}),
    ?assertEqual(4, length(Samples)),
    [?assertRate(Sample, 50) || Sample <- Samples].

full_has_everything_test() ->
    #{mode := continuous, sleep := sleep, code := #{runner := ?SLEEP}, system := System, run_options := Options,
      result := Result} = erlperf:run(?SLEEP, ?SHORT#{report => full}),
    ?assertMatch(#{emu_type := _, emu_flavor := _, dynamic_trace := _, os := _, system_version := _}, System),
    ?assertEqual(#{concurrency => 1, cv => undefined, priority => high, report => full, sample_duration => 50,
                   samples => 3, warmup => 0}, Options),
    #{average := Average, min := Min, max := Max, median := Median, p99 := P99, stddev := _, variance := _, best := Max,
      worst := Min, samples := [0 | _] = Counters, time := Time, iteration_time := Ns, iteration_time_ns := Exact} = Result,
    ?assert(Min =< Median andalso Median =< P99 andalso is_float(Average)),
    ?assertEqual(4, length(Counters)),
    ?assertEqual(Counters, lists:sort(Counters)),
    ?assert(Time >= 150000),
    ?assertEqual(Ns, round(Exact)),
    ?assert(Ns >= 1000000 andalso Ns < 1000000000).

timed_is_milliseconds_test() ->
    Timed = ?SHORT#{sample_duration => {timed, 20}},
    ?assert(erlperf:run(?SLEEP, Timed) >= 20),
    ?assertMatch([_, _, _], erlperf:run(?SLEEP, Timed#{report => extended})),
    #{mode := timed, result := #{samples := [First | _], best := Best, min := Best}} = Full
        = erlperf:run(?SLEEP, Timed#{report => full}),
    ?assert(First >= 20000),
    ?assertNot(is_map_key(sleep, Full)),
    ?assert(erlperf:time(?SLEEP, 10) >= 10),
    ?assert(erlperf:run(?SLEEP, #{samples => 10, sample_duration => undefined}) >= 10).

one_sample_has_no_deviation_test() ->
    #{result := #{stddev := undefined}} = erlperf:run(?SLEEP, ?SHORT#{samples => 1, report => full}).

slow_runners_are_exact_test() ->
    #{result := #{iteration_time := Ns}} = erlperf:run("timer:sleep(70).", #{sample_duration => 30, report => full}),
    ?assert(Ns >= 69000000 andalso Ns < 1000000000).

squeeze_says_how_many_workers_test() ->
    {Qps, Workers} = erlperf:run(?SLEEP, ?SHORT, #{max => 3}),
    ?assertRate(Qps, Workers * 50),
    {{_, _}, [{_, 2}, {_, 1}]} = erlperf:run(?SLEEP, ?SHORT#{report => extended}, #{max => 2}),
    #{mode := concurrency, history := [{2, #{}}, {1, #{}}], concurrency_options := #{max := 2, min := 1, step := 1, threshold := 3}}
        = erlperf:run(?SLEEP, ?SHORT#{report => full}, #{max => 2}),
    ?assertEqual({error, not_supported}, erlperf:benchmark([#{runner => ?SLEEP}, #{runner => ?SLEEP}], ?SHORT, #{})).

squeeze_stops_where_nothing_is_gained_test() ->
    %% One server sleeps for everybody, so a second worker gains nothing.
    Code = #{runner => "gen_server:call(squeezed, work).",
             init => {?MODULE, start_server, []}, done => "gen_server:stop(squeezed)."},
    %% A machine that stops during a pass makes the next one look better, but not every time.
    speedwell_patience:until(fun() ->
        {_, Workers} = erlperf:run(Code, #{sample_duration => 200}, #{threshold => 2, max => 8}),
        Workers =< 4
    end, 6).

start_server() -> gen_server:start_link({local, squeezed}, ?MODULE, [], []).
init([]) -> {ok, none}.
handle_call(work, _, State) -> timer:sleep(1), {reply, ok, State}.
handle_cast(_, State) -> {noreply, State}.

compare_takes_turns_test() ->
    [Quick, Slow] = erlperf:compare([?SLEEP, "timer:sleep(100)."], #{sample_duration => 200}),
    ?assert(Quick >= Slow andalso Slow =< 2),
    [_, _] = erlperf:benchmark([#{runner => "r(X) -> X.", init_runner => "2."}, #{runner => fun(X) -> X end, init_runner => "2."}],
                               ?SHORT, undefined).

crashes_have_the_reason_of_the_code_test() ->
    ?assertExit({boom, [{_, _, _, _} | _]}, erlperf:run("erlang:error(boom).", ?SHORT)),
    ?assertExit({{nocatch, ball}, _}, erlperf:run("throw(ball).", ?SHORT)),
    ?assertExit(normal, erlperf:run("exit(normal).", ?SHORT)),
    ?assertExit(shutdown, erlperf:run("exit(shutdown).", ?SHORT)),
    ?assertExit({generate, {compile, runner, "variable 'X' is unbound"}}, erlperf:run("X.", ?SHORT)),
    ?assertExit({i, _}, erlperf:run(#{runner => "ok.", init => "erlang:error(i)."}, ?SHORT)),
    ?assertExit({i, _}, erlperf:run(#{runner => "ok.", init_runner => "erlang:error(i)."}, ?SHORT)).

nothing_is_left_after_a_run_test() ->
    {Processes, Modules} = {processes(), [Module || {Module, _} <- code:all_loaded()]},
    erlperf:run(#{runner => "ets:lookup(left, x).", init => "ets:new(left, [named_table, public])."}, ?SHORT),
    ?assertEqual(undefined, ets:info(left)),
    %% Processes that were told to end do so when they get to it; those of earlier tests may have gone meanwhile.
    speedwell_patience:until(fun() -> processes() -- Processes =:= [] end, 10000),
    ?assertEqual([], [Module || {Module, _} <- code:all_loaded()] -- Modules).

an_isolated_run_has_a_node_of_its_own_test_() ->
    case code:ensure_loaded(peer) of
        {module, peer} -> {timeout, 120, fun() -> ?assertRate(erlperf:run(?SLEEP, ?SHORT#{isolation => #{}}), 50) end};
        _ -> []
    end.

calls_are_recorded_test() ->
    Caller = spawn_link(fun Loop() -> lists:seq(1, 3), timer:sleep(1), Loop() end),
    speedwell_patience:until(fun() ->
        Recorded = erlperf:record(lists, seq, 2, 500),
        lists:any(fun(Calls) -> lists:member({lists, seq, [1, 3]}, Calls) end, Recorded)
    end, 6),
    unlink(Caller),
    exit(Caller, kill).
