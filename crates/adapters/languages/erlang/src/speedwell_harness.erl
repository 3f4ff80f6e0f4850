%% The harness: a process that owns the two pipes of the protocol (docs/reference/protocol.md), passes one command
%% after the other to `speedwell_commands`, and remains responsive to `stop` and the end of the commands. Start reading
%% at start/0, which `erl -s speedwell_harness` calls.
-module(speedwell_harness).

-export([start/0]).

-record(state, {
    port :: port(),
    buffer = <<>> :: binary(),
    queue = [] :: [{binary(), map()}],
    %% The current command, and the process that executes it.
    current = none :: none | {pid(), Verb :: binary()},
    %% Whether `stop` arrived while a run was queued.
    early = false :: boolean(),
    jobs = #{} :: #{binary() => pid()},
    %% The process that samples the gauges, on the node of the jobs.
    monitor = off :: off | #{watcher := pid(), id := binary(), interval_ms := pos_integer()}
}).

-spec start() -> pid().
start() ->
    spawn(fun init/0).

init() ->
    process_flag(trap_exit, true),
    process_flag(priority, high),
    {In, Out} = descriptors(),
    os:unsetenv("SPEEDWELL_FDS"),
    Port = open_port({fd, In, Out}, [binary, stream, eof]),
    %% Cached code needs no compiler.
    os:getenv("SPEEDWELL_CACHE") =:= false andalso spawn(fun speedwell_cache:preload/0),
    loop(#state{port = Port}).

descriptors() ->
    case string:lexemes(os:getenv("SPEEDWELL_FDS", "3,4"), ",") of
        [In, Out] -> {list_to_integer(In), list_to_integer(Out)}
    end.

loop(State = #state{port = Port, current = Current}) ->
    receive
        {Port, {data, Bytes}} -> loop(next(received(Bytes, State)));
        {Port, eof} -> loop(ended(State));
        {event, Line} -> loop(send(Line, State));
        {finished, Pid, Jobs} when element(1, Current) =:= Pid -> loop(next(State#state{current = none, jobs = Jobs}));
        {'EXIT', Pid, Reason} when element(1, Current) =:= Pid, Reason =/= normal ->
            loop(next((send(broken(Reason), State))#state{current = none}));
        {'EXIT', Port, _} -> close(State);
        {gauges, Watcher, Gauges} -> loop(gauges(Watcher, Gauges, State));
        _ -> loop(State)
    end.

broken(Reason) ->
    speedwell_wire:encode(error, [{stage, protocol}, {class, exit}, {msg, io_lib:format("~0tp", [Reason])}, {fatal, 0}]).

send(Line, State = #state{port = Port}) ->
    try port_command(Port, Line) of _ -> State catch error:badarg -> close(State) end.

received(Bytes, State = #state{buffer = Buffer}) ->
    Lines = binary:split(<<Buffer/binary, Bytes/binary>>, <<"\n">>, [global]),
    {Whole, [Rest]} = lists:split(length(Lines) - 1, Lines),
    lists:foldl(fun heard/2, State#state{buffer = Rest}, [speedwell_wire:decode(Line) || Line <- Whole, Line =/= <<>>]).

heard({<<"stop">>, Fields}, State) ->
    stop(Fields, State);
heard({<<"monitor">>, Fields}, State) ->
    watch(Fields, State);
heard(Command, State = #state{queue = Queue}) ->
    State#state{queue = Queue ++ [Command]}.

%% Only `stop` overtakes others. It ends the current run, or the queued one.
stop(Fields, State = #state{current = Current, queue = Queue}) ->
    Answer = [{id, maps:get(<<"id">>, Fields, <<>>)}, {job, maps:get(<<"job">>, Fields, <<"*">>)}],
    Said = send(speedwell_wire:encode(stopped, Answer), State),
    case Current of
        {Pid, <<"run">>} -> Pid ! {stop, self()}, Said;
        _ -> Said#state{early = lists:keymember(<<"run">>, 1, Queue)}
    end.

next(State = #state{current = none, queue = [{<<"quit">>, _} | _]}) ->
    close(State);
next(State = #state{current = none, queue = [{Verb, Fields} | Queue], jobs = Jobs, early = Early}) ->
    Main = self(),
    Pid = spawn_link(fun() -> Main ! {finished, self(), speedwell_commands:perform(Verb, Fields, Jobs, Main)} end),
    Stopped = Early andalso Verb =:= <<"run">>,
    Stopped andalso (Pid ! {stop, self()}),
    State#state{current = {Pid, Verb}, queue = Queue, early = Early andalso not Stopped};
next(State) ->
    State.

%% The end of the commands ends everything at once, unless `quit` has already been received.
ended(State = #state{queue = Queue}) ->
    case lists:keymember(<<"quit">>, 1, Queue) of
        true -> State;
        false -> close(State)
    end.

%% Executes `done` of every job and ends the process. Failures of `done` are still reported.
-spec close(#state{}) -> no_return().
close(#state{jobs = Jobs, current = Current, port = Port}) ->
    case Current of {Pid, _} -> unlink(Pid), exit(Pid, kill); none -> ok end,
    Main = self(),
    Closing = [spawn_monitor(fun() -> undone(Main, Name, speedwell_job:close(Job)) end) || {Name, Job} <- maps:to_list(Jobs)],
    wait(Closing, Port),
    erlang:whereis(speedwell_peers) =:= undefined orelse speedwell_peers:stop(),
    erlang:halt(0).

undone(_, _, none) -> ok;
undone(Main, Name, Failure) ->
    Main ! {event, speedwell_wire:encode(error, [{job, Name} | speedwell_error:of_failure(Failure)])}.

wait([], Port) ->
    receive
        {event, Line} -> write_event(Line, Port), wait([], Port)
    after 0 -> ok
    end;
wait([{Pid, Monitor} | Rest], Port) ->
    receive
        {'DOWN', Monitor, process, Pid, _} -> wait(Rest, Port)
    end.

write_event(Line, Port) ->
    try port_command(Port, Line) catch error:badarg -> false end.

watch(Fields, State) ->
    Id = maps:get(<<"id">>, Fields, <<>>),
    Off = unwatched(State),
    case binary_to_integer(maps:get(<<"interval_ns">>, Fields, <<"0">>)) of
        0 -> send(speedwell_wire:encode(gauge, [{id, Id}]), Off);
        IntervalNs -> watched(Id, max(1, IntervalNs div 1000000), Off)
    end.

watched(Id, IntervalMs, State = #state{jobs = Jobs}) ->
    Watcher = speedwell_gauges:watch(measured_node(Jobs), IntervalMs),
    State#state{monitor = #{watcher => Watcher, id => Id, interval_ms => IntervalMs}}.

unwatched(State = #state{monitor = #{watcher := Watcher}}) ->
    unlink(Watcher),
    exit(Watcher, kill),
    State#state{monitor = off};
unwatched(State) ->
    State.

%% Jobs on other nodes are all on the same one.
measured_node(Jobs) ->
    case [node(Job) || Job <- maps:values(Jobs), node(Job) =/= node()] of
        [Node | _] -> Node;
        [] -> node()
    end.

gauges(Watcher, Gauges, State = #state{monitor = #{watcher := Watcher, id := Id, interval_ms := IntervalMs}, jobs = Jobs}) ->
    case measured_node(Jobs) =:= node(Watcher) of
        true ->
            Time = erlang:convert_time_unit(erlang:monotonic_time(), native, nanosecond),
            Counts = [{["job.", Name], Count} || {Name, Job} <- maps:to_list(Jobs), Count <- count(Job)],
            Own = [{Name, maps:get(Name, Gauges)} || {Name, _} <- speedwell_gauges:schema()],
            send(speedwell_wire:encode(gauge, [{id, Id}, {t_ns, Time}, {pid, maps:get(pid, Gauges)}] ++ Own ++ Counts), State);
        false ->
            watched(Id, IntervalMs, unwatched(State))
    end;
gauges(_, _, State) ->
    State.

%% A job that is ending does not respond.
count(Job) ->
    try [gen_server:call(Job, sample, 1000)] catch exit:_ -> [] end.
