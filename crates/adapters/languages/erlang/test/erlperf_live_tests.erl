%% Permanent jobs, monitors, history and the cluster monitor, with the application running.
-module(erlperf_live_tests).
-include_lib("eunit/include/eunit.hrl").
-export([collect/2, report/2, log/2]).
-export([a_job_changes_while_it_runs/0, new_code_is_executed_at_once/0, a_crash_ends_the_job/0,
         a_handle_is_read_without_the_job/0, a_job_obeys_system_messages/0, a_supervisor_ends_a_job/0,
         what_done_fails_with_is_logged/0, the_priority_is_that_of_a_job_with_workers/0,
         changes_of_concurrency_wait_for_each_other/0, monitors_write_the_known_columns/0,
         the_history_forgets_by_its_own_clock/0, lines_have_the_fields_in_their_order/0,
         the_cluster_monitor_sees_other_nodes/0]).

live_test_() ->
    {setup, fun() -> {ok, Started} = application:ensure_all_started(speedwell), Started end,
     fun(Started) -> [application:stop(App) || App <- lists:reverse(Started)] end,
     [{timeout, 120, {atom_to_list(Name), fun() -> ?MODULE:Name() end}} || Name <- [
         a_job_changes_while_it_runs, new_code_is_executed_at_once, a_crash_ends_the_job, a_handle_is_read_without_the_job,
         a_job_obeys_system_messages, a_supervisor_ends_a_job, what_done_fails_with_is_logged,
         the_priority_is_that_of_a_job_with_workers, changes_of_concurrency_wait_for_each_other,
         monitors_write_the_known_columns, the_history_forgets_by_its_own_clock, lines_have_the_fields_in_their_order,
         the_cluster_monitor_sees_other_nodes]]}.

grows(Job) ->
    First = erlperf_job:sample(Job),
    timer:sleep(200),
    erlperf_job:sample(Job) - First.

a_job_changes_while_it_runs() ->
    Job = erlperf:start(#{runner => "r(_, N) -> timer:sleep(1), N.", init_runner => "1."}, 2),
    grows(Job),
    %% If the machine stalls, one of them does less, but not every time.
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
    %% It waits two seconds or more for its answer.
    speedwell_patience:until(fun() -> process_info(First, status) =:= {status, waiting} end, 10000),
    ?assertEqual(already_started, erlperf_job:measure(Job, 1)),
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
    %% Each worker ends its current iteration and does not return from the next one.
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

a_handle_is_read_without_the_job() ->
    %% The job stays in `done` until it receives a message.
    {ok, Job} = erlperf_job:start(#{runner => "timer:sleep(1).", done => "receive go -> ok end."}),
    Handle = erlperf_job:handle(Job),
    ?assertEqual(0, erlperf_job:sample(Handle)),
    ok = erlperf_job:set_concurrency(Job, 2),
    speedwell_patience:until(fun() -> erlperf_job:sample(Handle) > 20 end, 10000),
    erlperf_job:request_stop(Job),
    ?assert(erlperf_job:sample(Handle) > 20),
    Monitor = monitor(process, Job),
    Job ! go,
    receive {'DOWN', Monitor, process, Job, normal} -> ok end,
    ?assertEqual(undefined, erlperf_job:sample(Handle)).

%% As documented by erlperf: `gen:stop(Job)` ends them, and waits.
a_job_obeys_system_messages() ->
    Self = self(),
    Modules = [Module || {Module, _} <- code:all_loaded()],
    [begin
         {ok, Job} = erlperf_job:start(#{runner => "ok.", done => fun() -> Self ! done end}),
         ok = erlperf_job:set_concurrency(Job, 1),
         ?assertMatch(#{}, maps:from_list([{status, sys:get_status(Job)}])),
         ok = sys:suspend(Job),
         ok = sys:resume(Job),
         ok = Stop(Job),
         ?assertNot(is_process_alive(Job)),
         receive done -> ok after 0 -> ?assert(false) end
     end || Stop <- [fun gen_server:stop/1, fun(Job) -> gen:stop(Job) end, fun(Job) -> gen_server:stop(Job, shutdown, 5000) end]],
    ?assertEqual([], [Module || {Module, _} <- code:all_loaded(), lists:prefix("job_", atom_to_list(Module))] -- Modules).

a_supervisor_ends_a_job() ->
    Self = self(),
    Job = erlperf:start(#{runner => "timer:sleep(1).", init => fun() -> 7 end, done => fun(Shared) -> Self ! {done, Shared} end}, 3),
    ok = supervisor:terminate_child(erlperf_job_sup, Job),
    ?assertNot(is_process_alive(Job)),
    receive {done, 7} -> ok after 0 -> ?assert(false) end.

log(#{msg := Message}, #{config := Hearer}) -> Hearer ! {log, Message}.
report(_, _) -> ok.

what_done_fails_with_is_logged() ->
    Level = maps:get(level, logger:get_primary_config()),
    ok = logger:add_handler(?MODULE, ?MODULE, #{config => self()}),
    ok = logger:set_handler_config(default, level, none),
    {ok, Job} = erlperf_job:start(#{runner => "ok.", done => "erlang:error(as_expected)."}),
    ok = gen_server:stop(Job),
    receive {log, {report, #{args := Terms}}} -> ?assertMatch([error, as_expected | _], Terms) end,
    ok = logger:remove_handler(?MODULE),
    ok = logger:set_handler_config(default, level, all),
    ok = logger:set_primary_config(level, Level).

the_priority_is_that_of_a_job_with_workers() ->
    {ok, Job} = erlperf_job:start(#{runner => "timer:sleep(1)."}),
    Priority = fun() -> element(2, process_info(Job, priority)) end,
    ?assertEqual({normal, high}, {Priority(), erlperf_job:set_priority(Job, max)}),
    ?assertEqual(normal, Priority()),
    ok = erlperf_job:set_concurrency(Job, 2),
    ?assertEqual(max, Priority()),
    ?assertEqual(max, erlperf_job:set_priority(Job, high)),
    ?assertEqual(high, Priority()),
    ok = erlperf_job:set_concurrency(Job, 0),
    ?assertEqual(normal, Priority()),
    ok = gen_server:stop(Job).

changes_of_concurrency_wait_for_each_other() ->
    persistent_term:put(?MODULE, self()),
    Text = lists:flatten(io_lib:format("persistent_term:get(~p) ! {ready, self()}, receive go -> ok end.", [?MODULE])),
    {ok, Job} = erlperf_job:start(#{runner => "timer:sleep(1).", init_runner => Text}),
    Self = self(),
    Set = fun(Count) -> spawn_link(fun() -> Self ! {set, Count, erlperf_job:set_concurrency(Job, Count)} end) end,
    Set(1),
    receive {ready, First} -> ok end,
    Second = Set(2),
    speedwell_patience:until(fun() -> process_info(Second, status) =:= {status, waiting} end, 10000),
    First ! go,
    receive {set, 1, ok} -> ok end,
    receive {ready, Other} -> Other ! go end,
    receive {set, 2, ok} -> ok end,
    ?assertEqual(2, erlperf_job:concurrency(Job)),
    ok = gen_server:stop(Job).

the_history_forgets_by_its_own_clock() ->
    {ok, History} = erlperf_history:start_link(1000),
    Now = erlang:system_time(millisecond),
    Tell = fun(Time) -> History ! #{time => Time, node => 'n@other'}, sys:get_state(History) end,
    Known = fun() -> [Time || {Time, #{node := 'n@other'}} <- erlperf_history:get(0, Now + 100000)] end,
    %% A node whose clock is a minute behind is forgotten at once; one that is ahead does not evict the others.
    [Tell(Time) || Time <- [Now, Now + 60000, Now - 60000]],
    ?assertEqual([Now, Now + 60000], Known()),
    speedwell_patience:until(fun() -> erlang:system_time(millisecond) > Now + 1000 end, 10000),
    Tell(Now - 60000),
    ?assertEqual([Now + 60000], Known()),
    gen_server:stop(History).

lines_have_the_fields_in_their_order() ->
    File = filename:join(os:getenv("TMPDIR", "/tmp"), "speedwell-order-" ++ os:getpid()),
    {ok, Watcher} = erlperf_cluster_monitor:start_link(File, 50, [ports, jobs, node]),
    %% It starts the history; samples that arrive late are printed late.
    Late = erlang:system_time(millisecond) - 5000,
    erlperf_history ! #{time => Late, node => 'n@other', ports => 7, jobs => [{self(), 1234}]},
    speedwell_patience:until(fun() -> has_lines(File, 2) end, 10000),
    unlink(Watcher),
    gen_server:stop(Watcher),
    ?assertEqual(undefined, whereis(erlperf_history)),
    {ok, Written} = file:read_file(File),
    Lines = binary:split(Written, <<"\n">>, [global]),
    ok = file:delete(File),
    Own = string:pad(pid_to_list(self()), 16, leading),
    ?assertEqual(iolist_to_binary(["   ports", Own, string:pad("node", 22)]), hd(Lines)),
    ?assert(lists:member(iolist_to_binary(["       7", string:pad("1234", 16, leading), string:pad("n@other", 22)]), Lines)).

monitors_write_the_known_columns() ->
    Folder = filename:join(os:getenv("TMPDIR", "/tmp"), "speedwell-" ++ os:getpid()),
    Files = [Log, Second, Cluster] = [Folder ++ Ending || Ending <- [".log", ".second", ".cluster"]],
    {ok, Logger} = erlperf_file_log:start_link(Log),
    {ok, Other} = erlperf_file_log:start_link(Second),
    {ok, History} = erlperf_history:start_link(),
    {ok, Watcher} = erlperf_cluster_monitor:start_link(Cluster, 1000, [time, node, sched_util, memory_total, jobs]),
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
    [begin unlink(Pid), ok = gen_server:stop(Pid) end || Pid <- [Logger, Other, Watcher, History]],
    speedwell_job:close(Job),
    {ok, Written} = file:read_file(Log),
    {ok, Same} = file:read_file(Second),
    ?assertMatch({0, Size} when Size > 0, binary:match(Written, Same)),
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

%% Whether a file has this many complete lines.
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
        gen_server:stop(Watcher)
    after
        speedwell_peers:stop()
    end,
    ?assertEqual([], nodes()).
