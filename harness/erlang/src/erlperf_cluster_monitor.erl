%% Shows what the monitors of all connected nodes tell: a line for each node and interval, to a device, a file or
%% a function.
-module(erlperf_cluster_monitor).
-behaviour(gen_server).

-export([start_link/0, start_link/3]).
-export([init/1, handle_call/3, handle_cast/2, handle_info/2]).

-type handler() :: io:device() | file:filename_all() | {module(), atom(), State :: term()}.

-record(state, {
    handler :: {device, io:device()} | {module(), atom(), term()},
    interval :: pos_integer(),
    due :: integer(),
    fields :: [atom()],
    %% Told since the last line.
    told = [] :: [{integer(), map()}],
    header = "" :: iodata()
}).

-define(COLUMNS, [
    {sched_util, "%sched", 7, percent}, {dcpu, "%dcpu", 7, percent}, {dio, "%dio", 7, percent},
    {processes, "procs", 8, number}, {ports, "ports", 8, number}, {ets, "ets", 6, number},
    {memory_total, "mem_total", 10, size}, {memory_processes, "mem_proc", 10, size},
    {memory_binary, "mem_bin", 10, size}, {memory_ets, "mem_ets", 10, size}
]).
-define(JOB_WIDTH, 16).

%% Everything, once in a second, to the group leader.
-spec start_link() -> {ok, pid()} | {error, term()}.
start_link() -> start_link(group_leader(), 1000, undefined).

%% A function is called as Module:Function([{Time, Map}], State) and gives the next state. The maps have the
%% fields that are asked for, or all.
-spec start_link(handler(), pos_integer(), [atom()] | undefined) -> {ok, pid()} | {error, term()}.
start_link(Handler, Interval, Fields) ->
    gen_server:start_link(?MODULE, {Handler, Interval, Fields}, []).

init({Handler, Interval, Fields}) ->
    case opened(Handler) of
        {error, Reason} -> {stop, Reason};
        Opened ->
            ok = pg:join(erlperf, cluster_monitor, self()),
            Wanted = case Fields of undefined -> [time, node, jobs | [Name || {Name, _, _, _} <- ?COLUMNS]]; _ -> Fields end,
            {ok, scheduled(#state{handler = Opened, interval = Interval, due = erlang:monotonic_time(millisecond),
                                  fields = Wanted})}
    end.

opened({Module, Function, State}) when is_atom(Module), is_atom(Function) -> {Module, Function, State};
opened(Device) when is_pid(Device); is_atom(Device) -> {device, Device};
opened(File) ->
    case file:open(File, [raw, append]) of
        {ok, Device} -> {device, Device};
        Error -> Error
    end.

scheduled(State = #state{interval = Interval, due = Due}) ->
    erlang:send_after(Due + Interval, self(), tick, [{abs, true}]),
    State#state{due = Due + Interval}.

handle_call(_, _, State) -> {reply, ok, State}.
handle_cast(_, State) -> {noreply, State}.

handle_info(#{time := Time, node := _} = Map, State = #state{told = Told}) ->
    {noreply, State#state{told = [{Time, Map} | Told]}};
handle_info(tick, State = #state{told = []}) ->
    {noreply, scheduled(State)};
handle_info(tick, State = #state{told = Told}) ->
    {noreply, scheduled(shown(lists:sort(fun before/2, Told), State#state{told = []}))};
handle_info(_, State) ->
    {noreply, State}.

before({TimeA, #{node := A}}, {TimeB, #{node := B}}) -> {TimeA, A} =< {TimeB, B}.

shown(Told, State = #state{handler = {device, Device}, fields = Fields, header = Last}) ->
    Jobs = lists:usort([Job || {_, #{jobs := Known}} <- Told, {Job, _} <- Known]),
    Columns = case lists:member(jobs, Fields) of true -> Jobs; false -> [] end,
    Header = header(Fields, Columns),
    ok = write(Device, [[Header || Header =/= Last], [line(Map, Fields, Columns) || {_, Map} <- Told]]),
    State#state{header = Header};
shown(Told, State = #state{handler = {Module, Function, Own}, fields = Fields}) ->
    Next = Module:Function([{Time, maps:with(Fields, Map)} || {Time, Map} <- Told], Own),
    State#state{handler = {Module, Function, Next}}.

write({file_descriptor, _, _} = File, Text) -> file:write(File, Text);
write(Device, Text) -> io:put_chars(Device, Text).

header(Fields, Jobs) ->
    [[["      date     time    TZ "] || has(time, Fields)],
     [string:pad("node", 22) || has(node, Fields)],
     [string:pad(Title, Width, leading) || {Name, Title, Width, _} <- ?COLUMNS, has(Name, Fields)],
     [string:pad(pid_to_list(Job), ?JOB_WIDTH, leading) || Job <- Jobs], "\n"].

line(#{time := Time, node := Node, jobs := Known} = Map, Fields, Jobs) ->
    [[[erlperf_file_log:time(Time), " "] || has(time, Fields)],
     [string:pad(atom_to_list(Node), 22) || has(node, Fields)],
     [string:pad(cell(Kind, maps:get(Name, Map)), Width, leading) || {Name, _, Width, Kind} <- ?COLUMNS, has(Name, Fields)],
     [string:pad(count(lists:keyfind(Job, 1, Known)), ?JOB_WIDTH, leading) || Job <- Jobs], "\n"].

has(Name, Fields) -> lists:member(Name, Fields).

cell(percent, Value) -> io_lib:format("~.2f", [float(Value)]);
cell(number, Value) -> integer_to_list(Value);
cell(size, Value) -> erlperf_file_log:format_size(Value).

%% A job of another node has no figure here.
count({_, Count}) -> erlperf_file_log:format_number(Count);
count(false) -> "".
