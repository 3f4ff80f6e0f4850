%% Formats of results, as recorded from erlperf 2.3.0: same arguments, same formats, and values in their range.
-module(erlperf_tests).
-export([start_server/0, init/1, handle_call/3, handle_cast/2]).
-include_lib("eunit/include/eunit.hrl").

-define(SLEEP, "timer:sleep(1).").
-define(SHORT, #{sample_duration => 50}).

%% A sleep of 1 ms takes at least 1 ms. On a busy machine it may take longer than a whole sample.
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
    %% One server sleeps for all callers, so a second worker gains nothing.
    Code = #{runner => "gen_server:call(squeezed, work).",
             init => {?MODULE, start_server, []}, done => "gen_server:stop(squeezed)."},
    %% If the machine stalls during a pass, the next one looks better, but not every time.
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

crashes_name_the_job_and_the_reason_of_the_code_test() ->
    Crash = fun(Code, Options) ->
        try erlperf:run(Code, Options) catch error:{benchmark, {'EXIT', Job, Reason}} when is_pid(Job) -> Reason end
    end,
    ?assertMatch({boom, [{_, _, _, _} | _]}, Crash("erlang:error(boom).", ?SHORT)),
    ?assertMatch({{nocatch, ball}, _}, Crash({erlang, throw, [ball]}, ?SHORT#{concurrency => 2})),
    ?assertMatch({undef, [{'$cannot_be', there, [], _} | _]}, Crash({'$cannot_be', there, []}, ?SHORT)),
    ?assertMatch(normal, Crash("exit(normal).", ?SHORT)),
    ?assertMatch(shutdown, Crash("exit(shutdown).", ?SHORT)),
    ?assertMatch({boom, _}, Crash("erlang:error(boom).", #{sample_duration => {timed, 5}})),
    ?assertMatch({i, _}, Crash(#{runner => "ok.", init_runner => "erlang:error(i)."}, ?SHORT)),
    ?assertError({badmatch, {error, {i, [_ | _]}}}, erlperf:run(#{runner => "ok.", init => "erlang:error(i)."}, ?SHORT)),
    %% In a comparison, the successful job has ended, too.
    Before = processes(),
    ?assertError({benchmark, _}, erlperf:compare(["ok.", "erlang:error(boom)."], ?SHORT)),
    speedwell_patience:until(fun() -> processes() -- Before =:= [] end, 10000).

code_that_makes_no_sense_is_named_as_erlperf_names_it_test() ->
    Cases = [
        {#{runner => []}, {generate, {parse, runner, "there is no code"}}},
        {#{runner => {[]}}, {generate, {parse, runner, {[]}}}},
        {#{runner => [make_ref()]}, {generate, {parse, runner, '_'}}},
        {#{runner => {erlang, node, []}, init => []}, {generate, {parse, init, "there is no code"}}},
        {#{runner => "foo(."}, {generate, {parse, runner, "syntax error before: '.'"}}},
        {#{runner => "\n\"open"}, {generate, {scan, runner, {2, erl_scan, '_'}, 2}}},
        {#{runner => [{rand, uniform, []}, {rand, uniform, 1}]}, {generate, {runner, 0, invalid, {rand, uniform, 1}}}},
        {#{runner => "ok.", init => [{a, b, []}, {a, b, c}]}, {generate, {init, 0, invalid}}},
        {#{runner => "r(X) -> X."}, {generate, {runner, 1, requires, init_runner}}},
        {#{runner => fun(_, _) -> ok end}, {generate, {runner, 2, requires, init_runner}}},
        {#{runner => fun(_, _, _) -> ok end, init_runner => "1."}, {generate, {runner, 3, not_supported}}},
        {#{runner => "ok.", init_runner => "i(X) -> X."}, {generate, {init_runner, 1, requires, init}}},
        {#{runner => "ok.", init => "i(X) -> X."}, {generate, {init, i, 1}}},
        {#{runner => "ok.", init => "1.", init_runner => "i(X, _) -> X."}, {generate, {init_runner, 2, i}}},
        {#{runner => "ok.", init => fun(X) -> X end}, {generate, {init, 1, not_supported}}},
        {#{runner => "ok.", done => fun(_) -> ok end}, {generate, {done, 1, requires, init}}},
        {#{runner => "X."}, {compile, [{"runner", [{'_', erl_lint, {unbound_var, 'X'}}]}], '_'}}
    ],
    [begin
         Given = try Call(Code) catch error:Reason -> Reason end,
         ?assert(is_like(Given, Shape), {Code, Given})
     end || {Code, Shape} <- Cases, Call <- [fun erlperf_job:start_link/1, fun(C) -> erlperf:run(C, ?SHORT) end]].

%% '_' matches anything.
is_like(_, '_') -> true;
is_like(Term, Shape) when is_tuple(Term), is_tuple(Shape) -> is_like(tuple_to_list(Term), tuple_to_list(Shape));
is_like([A | As], [B | Bs]) -> is_like(A, B) andalso is_like(As, Bs);
is_like(Term, Shape) -> Term =:= Shape.

nothing_is_left_after_a_run_test() ->
    {Processes, Modules} = {processes(), [Module || {Module, _} <- code:all_loaded()]},
    erlperf:run(#{runner => "ets:lookup(left, x).", init => "ets:new(left, [named_table, public])."}, ?SHORT),
    ?assertEqual(undefined, ets:info(left)),
    %% Processes exit asynchronously; those of earlier tests may have exited meanwhile.
    speedwell_patience:until(fun() -> processes() -- Processes =:= [] end, 10000),
    ?assertEqual([], [Module || {Module, _} <- code:all_loaded()] -- Modules).

an_isolated_run_has_a_node_of_its_own_test_() ->
    case code:ensure_loaded(peer) of
        {module, peer} -> {timeout, 120, fun() ->
            Isolated = ?SHORT#{isolation => #{}},
            ?assertRate(erlperf:run(?SLEEP, Isolated), 50),
            #{run_options := #{isolation := #{}}, result := #{}} = erlperf:run(?SLEEP, Isolated#{report => full}),
            ?assertError({benchmark, {'EXIT', _, {boom, [_ | _]}}}, erlperf:run("erlang:error(boom).", Isolated))
        end};
        _ -> []
    end.

calls_are_recorded_test() ->
    Caller = spawn_link(fun Loop() -> lists:seq(1, 3), timer:sleep(1), Loop() end),
    self() ! not_a_trace,
    speedwell_patience:until(fun() -> lists:member({lists, seq, [1, 3]}, erlperf:record(lists, seq, 2, 500)) end, 6),
    unlink(Caller),
    exit(Caller, kill),
    receive not_a_trace -> ok end,
    receive {trace, _, _, _} -> ?assert(false) after 0 -> ok end.

what_was_recorded_can_be_run_in_its_order_test() ->
    {_, Monitor} = spawn_monitor(fun() -> await_tracing(), [ets:module_info(Key) || Key <- [module, md5, module]] end),
    Recorded = erlperf:record(ets, module_info, '_', 1000),
    receive {'DOWN', Monitor, process, _, _} -> ok end,
    ?assertEqual([{ets, module_info, [Key]} || Key <- [module, md5, module]], Recorded),
    ?assert(erlperf:run(Recorded, ?SHORT) > 0).

%% From here on, calls of this process are traced.
await_tracing() ->
    case erlang:trace_info(self(), flags) of
        {flags, []} -> timer:sleep(1), await_tracing();
        {flags, [_ | _]} -> ok
    end.
