%% The harness as Speedwell sees it: protocol events over descriptors 3 and 4.
-module(speedwell_harness_tests).
-export([a_run_has_points_on_its_grid/0, only_what_the_compiler_may_know_can_fold/0,
         hooks_are_executed_where_they_belong/0, only_new_workers_are_initialised/0,
         errors_name_their_stage/0, exports_of_a_file_are_in_scope/0, a_run_can_be_stopped/0, gauges_are_told/0, code_is_kept_in_the_cache/0,
         a_cluster_needs_no_daemon/0, timed_runs_have_samples/0, elixir_has_the_same_loops/0,
         gauges_are_those_of_the_node/0, a_node_out_of_reach_says_why/0, errors_of_kept_code_are_in_its_language/0]).
-include_lib("eunit/include/eunit.hrl").
-import(speedwell_driver, [start/0, start/2, ask/4, until/2, close/1, tell/3]).

-define(ENDS, [<<"loaded">>, <<"workers">>, <<"calibrated">>, <<"end">>, <<"unloaded">>, <<"ready">>, <<"stopped">>, <<"error">>]).

all_test_() ->
    [{timeout, 120, {atom_to_list(Name), fun() -> ?MODULE:Name() end}} || Name <- [
        a_run_has_points_on_its_grid, only_what_the_compiler_may_know_can_fold, hooks_are_executed_where_they_belong, only_new_workers_are_initialised,
        errors_name_their_stage, exports_of_a_file_are_in_scope, a_run_can_be_stopped, gauges_are_told, gauges_are_those_of_the_node,
        a_node_out_of_reach_says_why, code_is_kept_in_the_cache, errors_of_kept_code_are_in_its_language,
        a_cluster_needs_no_daemon, timed_runs_have_samples, elixir_has_the_same_loops]].

load(Harness, Job, Fields) ->
    [Last] = ask(Harness, load, [{id, 1}, {job, Job}, {form, text}, {lang, erlang} | Fields], ?ENDS),
    Last.

run(Harness, Jobs, IntervalMs) ->
    tell(Harness, run, [{id, 2}, {jobs, Jobs}, {mode, continuous}, {interval_ns, IntervalMs * 1000000}, {samples, 3}, {warmup_ns, 0}]),
    until(Harness, [<<"end">>]).

numbers(List) -> [binary_to_integer(N) || N <- binary:split(List, <<",">>, [global, trim_all])].

a_run_has_points_on_its_grid() ->
    Harness = start(),
    [{<<"ready">>, #{<<"proto">> := <<"1">>, <<"lang">> := <<"erlang">>}}] = ask(Harness, hello, [{id, 0}, {proto, 1}], ?ENDS),
    {<<"loaded">>, #{<<"source">> := Source}} = load(Harness, a, [{runner, "timer:sleep(70)."}]),
    ?assertMatch({_, _}, binary:match(Source, <<"timer:sleep(70)">>)),
    Events = run(Harness, "a", 30),
    {_, Worker} = lists:keyfind(<<"worker">>, 1, Events),
    [0, First | _] = Times = numbers(maps:get(<<"t_ns">>, Worker)),
    ?assertEqual([0, 1, 2, 3], numbers(maps:get(<<"count">>, Worker))),
    ?assertEqual(4, length(Times)),
    ?assert(First >= 69000000 andalso First < 1000000000),
    [_, _, _, Median] = numbers(maps:get(<<"q_ps">>, Worker)),
    ?assert(Median > 69000000000 andalso Median < 1000000000000),
    ?assertEqual([{exit, 0}], close(Harness)).

only_what_the_compiler_may_know_can_fold() ->
    Harness = start(),
    Codes = [{"1 + 2.", folds}, {"lists:sum([1, 2]).", folds}, {"runner(_) -> 5.", folds},
             {"runner(_, P) -> P + 1, 5.", folds}, {"fun(1) -> 1; (N) -> N end.", folds},
             {"runner(_, P) -> P + 1.", computed}, {"fun(N) -> N * 2 end.", computed}, {"rand:uniform().", computed},
             {"timer:sleep(1), 5.", computed}, {"case rand:uniform() of X when X > 2 -> X; _ -> 1 end.", computed}],
    Found = [begin
                 {<<"loaded">>, Loaded} = load(Harness, io_lib:format("c~w", [N]), [{init_runner, "0."}, {runner, Text}]),
                 {Text, case Loaded of #{<<"folds">> := <<"0">>} -> computed; _ -> folds end}
             end || {N, {Text, _}} <- lists:enumerate(Codes)],
    ?assertEqual(Codes, Found).

hooks_are_executed_where_they_belong() ->
    Harness = start(),
    {<<"loaded">>, _} = load(Harness, a, [
        {init, "register(speedwell_server, spawn_link(fun() -> receive stop -> ok end end)), 20."},
        {init_runner, "i(Shared) -> true = is_pid(whereis(speedwell_server)), Shared + 1."},
        {runner, "r(21, N) when N >= 21 -> N + 1."},
        {done, "d(20) -> true = is_process_alive(whereis(speedwell_server)), erlang:error(as_expected)."}]),
    Events = run(Harness, "a", 10),
    ?assertNot(lists:keymember(<<"error">>, 1, Events)),
    [{<<"error">>, #{<<"stage">> := <<"done">>, <<"msg">> := <<"as_expected">>, <<"line">> := <<"1">>}}, {exit, 0}] = close(Harness).

only_new_workers_are_initialised() ->
    Harness = start(),
    {<<"loaded">>, _} = load(Harness, a, [{init, "persistent_term:put(n, counters:new(1, []))."},
                                          {init_runner, "counters:add(persistent_term:get(n), 1, 1)."},
                                          {runner, "3 = counters:get(persistent_term:get(n), 1)."}]),
    {<<"loaded">>, _} = load(Harness, b, [{runner, "ok."}]),
    [[{<<"workers">>, _}] = ask(Harness, workers, [{job, a}, {n, N}], ?ENDS) || N <- [2, 3, 1]],
    Runs = [run(Harness, Job, 5) || _ <- lists:seq(1, 20), Job <- ["a", "b"]],
    ?assertEqual([], [Event || Run <- Runs, {<<"error">>, _} = Event <- Run]),
    close(Harness).

errors_name_their_stage() ->
    Harness = start(),
    Failing = fun(Fields) ->
        {<<"error">>, #{<<"stage">> := Stage, <<"msg">> := Message, <<"line">> := Line}} = load(Harness, x, Fields),
        {Stage, Message, Line}
    end,
    ?assertEqual({<<"parse">>, <<"syntax error before: '.'">>, <<"2">>}, Failing([{runner, "a,\n("}])),
    ?assertEqual({<<"compile">>, <<"variable 'X' is unbound">>, <<"1">>}, Failing([{runner, "X"}])),
    ?assertEqual({<<"init">>, <<"i">>, <<"3">>}, Failing([{runner, "ok"}, {init, "\n \nerlang:error(i)"}])),
    {<<"loaded">>, _} = load(Harness, w, [{runner, "ok"}, {init_runner, "throw(w)"}]),
    [{<<"error">>, #{<<"stage">> := <<"init_runner">>, <<"class">> := <<"throw">>}}] = ask(Harness, workers, [{job, w}, {n, 1}], ?ENDS),
    [{<<"loaded">>, _} = load(Harness, Job, [{runner, Text}])
     || {Job, Text} <- [{good, "timer:sleep(1)"}, {bad, "timer:sleep(2), exit(normal)"}]],
    Events = run(Harness, "good,bad", 20),
    [#{<<"job">> := <<"bad">>, <<"stage">> := <<"run">>, <<"class">> := <<"exit">>, <<"msg">> := <<"normal">>}]
        = [Fields || {<<"error">>, Fields} <- Events],
    [#{<<"job">> := <<"good">>, <<"count">> := Count}] = [Fields || {<<"worker">>, Fields} <- Events],
    ?assertEqual(4, length(numbers(Count))),
    ?assertMatch([{<<"error">>, #{<<"stage">> := <<"protocol">>}}], ask(Harness, nonsense, [{id, 9}], ?ENDS)),
    close(Harness).

exports_of_a_file_are_in_scope() ->
    {ok, Folder} = file:get_cwd(),
    File = filename:join(Folder, "slug.erl"),
    Load = fun(Harness, Job, Runner) -> load(Harness, Job, [{runner, Runner}, {path0, File}]) end,
    Write = fun(Body) -> ok = file:write_file(File, ["-module(slug).\n-export([text/0, batch/1, length/1]).\n", Body]) end,
    Harness = start(),
    try
        Write("text() -> \"a b\".\nbatch(T) -> T.\nlength(T) -> T.\n"),
        {<<"loaded">>, #{<<"folds">> := <<"0">>, <<"source">> := Source}} = Load(Harness, a, "3 = length(batch(text()))"),
        ?assertMatch({_, _}, binary:match(Source, <<"-import(slug, [text/0, batch/1]).">>)),
        ?assertNot(lists:keymember(<<"error">>, 1, run(Harness, "a", 5))),
        {<<"loaded">>, _} = Load(Harness, b, "text() -> 1."),
        Message = fun({<<"error">>, #{<<"stage">> := <<"compile">>, <<"msg">> := Text}}) -> Text end,
        ?assertEqual(<<"variable 'Text' is unbound; 'slug.erl' exports text/0, batch/1, length/1">>,
                     Message(Load(Harness, c, "batch(Text)"))),
        ?assertMatch({0, _}, binary:match(Message(Load(Harness, d, "slow(1)")), <<"function slow/1 undefined">>)),
        Write("text() -> x y.\n"),
        ?assertMatch({0, _}, binary:match(Message(Load(Harness, e, "text()")), <<"slug.erl:3: syntax error before: y">>))
    after
        close(Harness),
        file:delete(File)
    end.

a_run_can_be_stopped() ->
    Harness = start(),
    {<<"loaded">>, _} = load(Harness, a, [{runner, "timer:sleep(1)"}]),
    tell(Harness, monitor, [{id, 7}, {interval_ns, 20000000}]),
    tell(Harness, run, [{jobs, a}, {mode, continuous}, {interval_ns, 20000000}, {samples, 1000000}, {warmup_ns, 0}]),
    %% This many iterations of a millisecond take several windows, whenever they begin.
    iterations(Harness, 200),
    Events = ask(Harness, stop, [{job, a}], [<<"end">>]),
    {_, #{<<"count">> := Count}} = lists:keyfind(<<"worker">>, 1, Events),
    ?assert(length(numbers(Count)) > 2),
    ?assert(lists:keymember(<<"stopped">>, 1, Events)),
    close(Harness).

%% Waits until the gauges report this many iterations of job a.
iterations(Harness, Enough) ->
    Last = lists:last(until(Harness, [<<"gauge">>])),
    case Last of
        {<<"gauge">>, #{<<"job.a">> := Count}} ->
            case binary_to_integer(Count) >= Enough of
                true -> ok;
                false -> iterations(Harness, Enough)
            end;
        {<<"gauge">>, #{}} -> iterations(Harness, Enough)
    end.

gauges_are_told() ->
    Harness = start(),
    {<<"loaded">>, _} = load(Harness, a, [{runner, "timer:sleep(1)"}]),
    [{<<"gauge">>, First}] = ask(Harness, monitor, [{id, 7}, {interval_ns, 20000000}], [<<"gauge">>]),
    [?assert(is_map_key(atom_to_binary(Name, utf8), First)) || {Name, _} <- speedwell_gauges:schema()],
    %% Four of 75 gauges arrive even if the machine stalls for a while.
    Events = run(Harness, "a", 500),
    Counts = [binary_to_integer(Count) || {<<"gauge">>, #{<<"job.a">> := Count}} <- Events],
    ?assert(length(Counts) > 3 andalso lists:last(Counts) > hd(Counts)),
    close(Harness).

%% Code on another node has that node's gauges, and its operating system process.
gauges_are_those_of_the_node() ->
    [Peer] = speedwell_peers:start(1, []),
    try
        Harness = start(),
        {<<"loaded">>, _} = load(Harness, a, [
            {runner, "timer:sleep(1)"}, {init, "[spawn_link(fun() -> timer:sleep(infinity) end) || _ <- lists:seq(1, 700)]"},
            {node, Peer}, {cookie, erlang:get_cookie()}]),
        [{<<"gauge">>, Gauge}] = ask(Harness, monitor, [{id, 7}, {interval_ns, 1000000000}], [<<"gauge">>]),
        ?assertEqual(rpc:call(Peer, os, getpid, []), binary_to_list(maps:get(<<"pid">>, Gauge))),
        ?assert(binary_to_integer(maps:get(<<"processes">>, Gauge)) > 700, Gauge),
        %% The node's cluster does not treat the harness as a member.
        ?assertEqual([node()], rpc:call(Peer, erlang, nodes, [])),
        [{exit, 0}] = close(Harness)
    after
        speedwell_peers:stop()
    end.

a_node_out_of_reach_says_why() ->
    [Peer] = speedwell_peers:start(1, []),
    try
        Refused = fun(Node, Cookie) ->
            Harness = start(),
            {<<"error">>, #{<<"stage">> := <<"protocol">>, <<"msg">> := Message}}
                = load(Harness, a, [{runner, "ok"}, {node, Node}] ++ [{cookie, Cookie} || Cookie =/= none]),
            close(Harness),
            Message
        end,
        Name = atom_to_binary(Peer, utf8),
        ?assertMatch({_, _}, binary:match(Refused(Peer, wrong), <<"'", Name/binary, "': it refuses the connection\nhint: is '--node-cookie'">>)),
        ?assertMatch({_, _}, binary:match(Refused(Peer, none), <<"it refuses the connection\nhint: give its cookie">>)),
        Missing = list_to_atom(speedwell_epmd:free_name() ++ "@127.0.0.1"),
        ?assertMatch({_, _}, binary:match(Refused(Missing, wrong), <<"no Erlang node is registered on 127.0.0.1\nhint: start it">>)),
        ?assertMatch({_, _}, binary:match(Refused('n@nowhere.invalid', wrong), <<"the host 'nowhere.invalid' cannot be resolved">>))
    after
        speedwell_peers:stop()
    end.

timed_runs_have_samples() ->
    Harness = start(),
    {<<"loaded">>, _} = load(Harness, a, [{runner, "timer:sleep(1)"}]),
    [{<<"workers">>, _}] = ask(Harness, workers, [{job, a}, {n, 2}], ?ENDS),
    tell(Harness, run, [{jobs, a}, {mode, timed}, {loop, 10}, {samples, 4}, {warmup_ns, 10000000}]),
    Events = until(Harness, [<<"end">>]),
    {_, #{<<"ns">> := Times, <<"loop">> := <<"10">>, <<"workers">> := <<"2">>}} = lists:keyfind(<<"timed">>, 1, Events),
    ?assertEqual(4, length(numbers(Times))),
    [?assert(Ns >= 10000000) || Ns <- numbers(Times)],
    close(Harness).

code_is_kept_in_the_cache() ->
    Folder = filename:join(os:getenv("TMPDIR", "/tmp"), "speedwell-cache-" ++ os:getpid()),
    Load = {runner, "false = code:is_loaded(v3_core)."},
    Failures = fun() ->
        Harness = start([], [{"SPEEDWELL_CACHE", Folder}]),
        {<<"loaded">>, _} = load(Harness, a, [Load]),
        Events = run(Harness, "a", 5),
        close(Harness),
        length([E || {<<"error">>, E} <- Events])
    end,
    %% The first process needs the compiler, the second one does not even load it.
    ?assertEqual({1, 0}, {Failures(), Failures()}),
    [File] = filelib:wildcard(filename:join([Folder, "erlang", "*"])),
    {ok, Bytes} = file:read_file(File),
    ok = file:write_file(File, binary:part(Bytes, 0, 40)),
    %% Damaged entries are created again.
    ?assertEqual({1, 0}, {Failures(), Failures()}),
    [file:delete(Each) || Each <- filelib:wildcard(filename:join([Folder, "erlang", "*"]))],
    file:del_dir(filename:join(Folder, "erlang")),
    file:del_dir(Folder).

%% Code from the cache does not load Elixir, but its exceptions still have Elixir's message.
errors_of_kept_code_are_in_its_language() ->
    case elixir() of
        none -> io:format(user, "skipped: Elixir is not installed~n", []);
        Ebin ->
            Folder = filename:join(os:getenv("TMPDIR", "/tmp"), "speedwell-elixir-" ++ os:getpid()),
            Message = fun(Runner) ->
                Harness = start(["-pa", Ebin], [{"SPEEDWELL_CACHE", Folder}]),
                [{<<"loaded">>, _}] = ask(Harness, load, [{job, a}, {form, text}, {lang, elixir}, {runner, Runner}], ?ENDS),
                Events = run(Harness, "a", 5),
                close(Harness),
                [Text] = [Text || {<<"error">>, #{<<"msg">> := Text}} <- Events],
                Text
            end,
            [?assertEqual({Text, Text}, {Message(Runner), Message(Runner)})
             || {Runner, Text} <- [{"raise \"boom\"", <<"boom">>}, {"throw %{a: \"b\"}", <<"(throw) %{a: \"b\"}">>},
                                   {"Map.fetch!(%{}, :k)", <<"key :k not found in: %{}">>}]],
            [file:delete(Each) || Each <- filelib:wildcard(filename:join([Folder, "erlang", "*"]))],
            file:del_dir(filename:join(Folder, "erlang")),
            file:del_dir(Folder)
    end.

a_cluster_needs_no_daemon() ->
    Harness = start(),
    {<<"loaded">>, _} = load(Harness, a, [{nodes, 3}, {runner, "2 = length(nodes()), erpc:call(hd(nodes()), erlang, node, [])"}]),
    Events = run(Harness, "a", 20),
    ?assertEqual([], [E || {<<"error">>, E} <- Events]),
    [{exit, 0}] = close(Harness).

elixir_has_the_same_loops() ->
    case elixir() of
        none -> io:format(user, "skipped: Elixir is not installed~n", []);
        Ebin ->
            Harness = start(["-pa", Ebin], []),
            Load = fun(Fields) ->
                [Last] = ask(Harness, load, [{job, proplists:get_value(name, Fields, a)}, {form, text}, {lang, elixir} | Fields], ?ENDS),
                Last
            end,
            ?assertMatch({<<"error">>, #{<<"stage">> := <<"parse">>, <<"line">> := <<"2">>}}, Load([{runner, "1\n+ )"}])),
            ?assertMatch({<<"error">>, #{<<"stage">> := <<"compile">>}}, Load([{runner, "nope()"}])),
            {<<"error">>, #{<<"msg">> := Unknown}} = Load([{runner, "state + 1"}, {init_runner, "1"}]),
            ?assertMatch({_, _}, binary:match(Unknown, <<"\nhint: the state is an argument of a function: 'fn state -> ... end'">>)),
            {<<"loaded">>, #{<<"arity">> := <<"2">>}} = Load([{init, "20"}, {init_runner, "fn shared -> shared + 1 end"},
                                                             {runner, "fn 21, n when n >= 21 -> n + 1 end"}]),
            {<<"loaded">>, _} = Load([{name, b}, {runner, "count = 1\nresult = 2\ncount + result"}]),
            {<<"loaded">>, _} = Load([{name, c}, {runner, "raise \"boom\""}]),
            Events = run(Harness, "a,b,c", 20),
            ?assertMatch([#{<<"job">> := <<"c">>, <<"msg">> := <<"boom">>, <<"line">> := <<"1">>}], [E || {<<"error">>, E} <- Events]),
            ?assertEqual(2, length([W || {<<"worker">>, W} <- Events])),
            close(Harness)
    end.

%% The folder of Elixir's modules, found from its program.
elixir() ->
    case os:find_executable("elixir") of
        false -> none;
        Program ->
            Real = string:trim(os:cmd("readlink -f " ++ Program)),
            filename:join([filename:dirname(filename:dirname(Real)), "lib", "elixir", "ebin"])
    end.
