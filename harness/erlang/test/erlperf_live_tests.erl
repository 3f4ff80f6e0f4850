%% Permanent jobs, monitors, history and the cluster monitor, with the application running.
-module(erlperf_live_tests).
-include_lib("eunit/include/eunit.hrl").
-export([collect/2]).

live_test_() ->
    {setup, fun() -> {ok, Started} = application:ensure_all_started(speedwell), Started end,
     fun(Started) -> [application:stop(App) || App <- lists:reverse(Started)] end,
     [{timeout, 120, Test} || Test <- [fun a_job_changes_while_it_runs/0, fun new_code_is_executed_at_once/0, fun a_crash_ends_the_job/0,
      fun monitors_write_the_known_columns/0, fun the_cluster_monitor_sees_other_nodes/0]]}.

grows(Job) ->
    First = erlperf_job:sample(Job),
    timer:sleep(200),
    erlperf_job:sample(Job) - First.

a_job_changes_while_it_runs() ->
    Job = erlperf:start(#{runner => "r(_, N) -> timer:sleep(1), N.", init_runner => "1."}, 2),
    ?assertMatch({_, 3}, erlperf_job:handle(Job)),
    grows(Job),
    %% A machine that stops meanwhile makes one of them do less, but not every time.
    speedwell_patience:until(fun() ->
        ok = erlperf_job:set_concurrency(Job, 64),
        ?assertEqual(64, erlperf_job:concurrency(Job)),
        Many = grows(Job),
        ok = erlperf_job:set_concurrency(Job, 1),
        ?assertEqual(1, erlperf_job:concurrency(Job)),
        grows(Job) < Many
    end, 9),
    Took = erlperf_job:measure(Job, 10),
    ?assert(Took >= 10000),
    Self = self(),
    First = spawn(fun() -> Self ! {first, erlperf_job:measure(Job, 2000)} end),
    %% It waits for its answer, two seconds and more.
    speedwell_patience:until(fun() -> process_info(First, status) =:= {status, waiting} end, 10000),
    ?assertEqual({error, already_started}, erlperf_job:measure(Job, 1)),
    receive {first, Long} -> ?assert(Long >= 2000000) end,
    ?assertEqual(high, erlperf_job:set_priority(Job, low)),
    ?assertMatch("-module(job_" ++ _, erlperf_job:source(Job)),
    Monitor = monitor(process, Job),
    erlperf_job:request_stop(Job),
    receive {'DOWN', Monitor, process, Job, normal} -> ok end,
    ?assertEqual(undefined, erlperf_job:sample(Job)),
    speedwell_patience:until(fun() -> supervisor:which_children(erlperf_job_sup) =:= [] end, 10000).

new_code_is_executed_at_once() ->
    load_module("do(N) -> timer:sleep(N)."),
    Job = erlperf:start(#{runner => "r(N) -> speedwell_reloaded:do(N).", init_runner => "2."}, 4),
    erlperf_job:sample(Job),
    load_module("do(_) -> timer:sleep(infinity)."),
    %% Each worker ends the iteration that it was in, and does not come back from the next one.
    settled(Job, erlperf_job:sample(Job)),
    speedwell_job:close(Job),
    code:purge(speedwell_reloaded),
    code:delete(speedwell_reloaded).

settled(Job, Last) ->
    timer:sleep(300),
    case erlperf_job:sample(Job) of
        Last -> ok;
        More -> settled(Job, More)
    end.

load_module(Text) ->
    Forms = [begin {ok, Tokens, _} = erl_scan:string(Line), {ok, Form} = erl_parse:parse_form(Tokens), Form end
             || Line <- ["-module(speedwell_reloaded).", "-export([do/1]).", Text]],
    {ok, Module, Binary} = compile:forms(Forms),
    code:purge(Module),
    {module, Module} = code:load_binary(Module, "nowhere", Binary).

a_crash_ends_the_job() ->
    {ok, Job} = erlperf_job:start(#{runner => "r(_, 20) -> erlang:error(boom); r(_, N) -> timer:sleep(1), N + 1.",
                                    init_runner => "0."}),
    Monitor = monitor(process, Job),
    ok = erlperf_job:set_concurrency(Job, 1),
    receive {'DOWN', Monitor, process, Job, Reason} -> ?assertMatch({boom, [_ | _]}, Reason) end.

monitors_write_the_known_columns() ->
    Folder = filename:join(os:getenv("TMPDIR", "/tmp"), "speedwell-" ++ os:getpid()),
    Files = [Log, Cluster] = [Folder ++ ".log", Folder ++ ".cluster"],
    {ok, Logger} = erlperf_file_log:start_link(Log),
    {ok, Watcher} = erlperf_cluster_monitor:start_link(Cluster, 1000, [time, node, sched_util, memory_total, jobs]),
    {ok, History} = erlperf_history:start_link(),
    {ok, Job} = erlperf_job:start(#{runner => "timer:sleep(1)."}),
    ok = erlperf_job:set_concurrency(Job, 1),
    From = erlang:system_time(millisecond),
    timer:sleep(2500),
    %% On a busy machine the first lines come late.
    speedwell_patience:until(fun() -> erlperf_history:get(From) =/= [] andalso has_lines(Log, 3) andalso has_lines(Cluster, 2) end, 10000),
    [{Time, #{time := Time, node := Node, jobs := Jobs, sched_util := Util}} | _] = erlperf_history:get(From),
    ?assertEqual(node(), Node),
    ?assert(Util >= 0 andalso Util =< 100),
    ?assertMatch({Job, Delta} when Delta >= 0, lists:keyfind(Job, 1, Jobs)),
    ?assertEqual([], erlperf_history:get(From - 10000, From - 9000)),
    [begin unlink(Pid), exit(Pid, kill) end || Pid <- [Logger, Watcher, History]],
    speedwell_job:close(Job),
    {ok, Written} = file:read_file(Log),
    Name = list_to_binary(pid_to_list(Job)),
    [<<>>, Header, Line | _] = lines_with(Name, Written),
    ?assertEqual(<<"YYYY-MM-DDTHH:MM:SS-oo:oo  Sched   DCPU    DIO    Procs    Ports     ETS Mem Total  Mem Proc   Mem Bin",
                   "   Mem ETS", (list_to_binary(string:pad(pid_to_list(Job), 13, leading)))/binary>>, Header),
    ?assertEqual(byte_size(Header), byte_size(Line)),
    ?assertMatch({match, _}, re:run(Line, "^\\d{4}-\\d\\d-\\d\\dT\\d\\d:\\d\\d:\\d\\d[+-]\\d\\d:\\d\\d( +\\d+\\.\\d\\d){3}( +\\d+){3}( +\\d+( [KMG]b)?){4} +\\d+$")),
    {ok, OfCluster} = file:read_file(Cluster),
    [ClusterHeader, ClusterLine | _] = binary:split(OfCluster, <<"\n">>, [global]),
    ?assertMatch({match, _}, re:run(ClusterHeader, "^      date     time    TZ node                   %sched mem_total( +<[0-9.]+>)*$")),
    ?assertEqual(byte_size(ClusterHeader), byte_size(ClusterLine)),
    [file:delete(File) || File <- Files].

%% Whether so many whole lines are in a file.
has_lines(File, Count) ->
    {ok, Text} = file:read_file(File),
    length(binary:matches(Text, <<"\n">>)) >= Count.

%% From the blank line above the header that names the job.
lines_with(Name, Written) ->
    Lines = binary:split(Written, <<"\n">>, [global]),
    At = length(lists:takewhile(fun(Line) -> binary:match(Line, Name) =:= nomatch end, Lines)),
    lists:nthtail(At - 1, Lines).

collect(Samples, Seen) ->
    [persistent_term:put({?MODULE, Node}, maps:keys(Map)) || {_, #{node := Node} = Map} <- Samples],
    Seen.

the_cluster_monitor_sees_other_nodes() ->
    [Peer] = speedwell_peers:start(1, []),
    try
        {ok, _} = rpc:call(Peer, application, ensure_all_started, [speedwell]),
        {ok, Watcher} = erlperf_cluster_monitor:start_link({?MODULE, collect, none}, 200, [node, sched_util]),
        ?assert(rpc:call(Peer, erlperf, run, ["timer:sleep(1).", #{sample_duration => 50}]) > 5),
        speedwell_patience:until(fun() -> lists:all(fun(Node) -> persistent_term:get({?MODULE, Node}, none) =/= none end, [Peer, node()]) end, 10000),
        ?assertEqual([node, sched_util], lists:sort(persistent_term:get({?MODULE, Peer}))),
        ?assertEqual([node, sched_util], lists:sort(persistent_term:get({?MODULE, node()}))),
        unlink(Watcher),
        exit(Watcher, kill)
    after
        speedwell_peers:stop()
    end,
    ?assertEqual([], nodes()).
