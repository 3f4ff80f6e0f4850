%% Prints the reports of the monitors of all connected nodes from the history: one line per node and interval,
%% to a device, a file or a function.
-module(erlperf_cluster_monitor).
-behaviour(gen_server).

-export([start_link/0, start_link/3]).
-export([init/1, handle_call/3, handle_cast/2, handle_info/2, terminate/2]).

-type handler() :: io:device() | file:filename_all() | {module(), atom(), State :: term()}.

-record(state, {
    handler :: {device, io:device()} | {module(), atom(), term()},
    interval :: pos_integer(),
    due :: integer(),
    fields :: [atom()],
    %% The history, if this process started it.
    history :: none | pid(),
    %% What is in the history and has been printed.
    shown :: #{{Time :: integer(), node()} => []},
    header = "" :: iodata()
}).

-define(COLUMNS, [
    {sched_util, "%sched", 7, percent}, {dcpu, "%dcpu", 7, percent}, {dio, "%dio", 7, percent},
    {processes, "procs", 8, number}, {ports, "ports", 8, number}, {ets, "ets", 6, number},
    {memory_total, "mem_total", 10, size}, {memory_processes, "mem_proc", 10, size},
    {memory_binary, "mem_bin", 10, size}, {memory_ets, "mem_ets", 10, size}
]).
-define(JOB_WIDTH, 16).

%% All fields, once per second, to the group leader.
-spec start_link() -> {ok, pid()} | {error, term()}.
start_link() -> start_link(group_leader(), 1000, undefined).

%% A function is called as Module:Function([{Time, Map}], State) and returns the next state. Maps and lines
%% have the requested fields, by default all, lines in that order. Starts the history if there is none.
-spec start_link(handler(), pos_integer(), [atom()] | undefined) -> {ok, pid()} | {error, term()}.
start_link(Handler, Interval, Fields) ->
    gen_server:start_link(?MODULE, {Handler, Interval, Fields}, []).

init({Handler, Interval, Fields}) ->
    case opened(Handler) of
        {error, Reason} -> {stop, Reason};
        Opened ->
            Wanted = case Fields of
                undefined -> [time, node] ++ [Name || {Name, _, _, _} <- ?COLUMNS] ++ [jobs];
                _ -> Fields
            end,
            History = history(),
            {ok, scheduled(#state{handler = Opened, interval = Interval, due = erlang:monotonic_time(millisecond),
                                  fields = Wanted, history = History, shown = keys(erlperf_history:get(0))})}
    end.

history() ->
    case erlperf_history:start_link() of
        {ok, Pid} -> Pid;
        {error, {already_started, _}} -> none
    end.

key({Time, #{node := Node}}) -> {Time, Node}.

keys(Samples) -> maps:from_list([{key(Sample), []} || Sample <- Samples]).

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

%% Late samples are printed late; samples from a node whose clock is ahead have to wait.
handle_info(tick, State = #state{shown = Before}) ->
    Known = erlperf_history:get(0),
    Fresh = [Sample || Sample <- Known, not is_map_key(key(Sample), Before)],
    Next = scheduled(State#state{shown = keys(Known)}),
    {noreply, case Fresh of [] -> Next; _ -> shown(Fresh, Next) end};
handle_info(_, State) ->
    {noreply, State}.

terminate(_, #state{history = none}) -> ok;
terminate(_, #state{history = History}) -> gen_server:stop(History).

shown(Samples, State = #state{handler = {device, Device}, fields = Fields, header = Last}) ->
    Jobs = lists:usort([Job || {_, #{jobs := Known}} <- Samples, {Job, _} <- Known]),
    Columns = case lists:member(jobs, Fields) of true -> Jobs; false -> [] end,
    Header = header(Fields, Columns),
    ok = write(Device, [[Header || Header =/= Last], [line(Map, Fields, Columns) || {_, Map} <- Samples]]),
    State#state{header = Header};
shown(Samples, State = #state{handler = {Module, Function, Own}, fields = Fields}) ->
    Next = Module:Function([{Time, maps:with(Fields, Map)} || {Time, Map} <- Samples], Own),
    State#state{handler = {Module, Function, Next}}.

write({file_descriptor, _, _} = File, Text) -> file:write(File, Text);
write(Device, Text) -> io:put_chars(Device, Text).

header(Fields, Jobs) ->
    [[title(Field, Jobs) || Field <- Fields], "\n"].

title(time, _) -> "      date     time    TZ ";
title(node, _) -> string:pad("node", 22);
title(jobs, Jobs) -> [string:pad(pid_to_list(Job), ?JOB_WIDTH, leading) || Job <- Jobs];
title(Name, _) ->
    {Name, Title, Width, _} = lists:keyfind(Name, 1, ?COLUMNS),
    string:pad(Title, Width, leading).

line(Map, Fields, Jobs) ->
    [[field(Field, Map, Jobs) || Field <- Fields], "\n"].

field(time, #{time := Time}, _) -> [erlperf_file_log:time(Time), " "];
field(node, #{node := Node}, _) -> string:pad(atom_to_list(Node), 22);
field(jobs, #{jobs := Known}, Jobs) -> [string:pad(count(lists:keyfind(Job, 1, Known)), ?JOB_WIDTH, leading) || Job <- Jobs];
field(Name, Map, _) ->
    {Name, _, Width, Kind} = lists:keyfind(Name, 1, ?COLUMNS),
    string:pad(cell(Kind, maps:get(Name, Map)), Width, leading).

cell(percent, Value) -> io_lib:format("~.2f", [float(Value)]);
cell(number, Value) -> integer_to_list(Value);
cell(size, Value) -> erlperf_file_log:format_size(Value).

%% A job of another node has no value here.
count({_, Count}) -> erlperf_file_log:format_number(Count);
count(false) -> "".
