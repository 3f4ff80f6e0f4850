%% Gauges of the virtual machine: utilization of its schedulers since the last look, processes, ports, tables and
%% memory. Used by the monitors of the protocol and of the shell.
-module(speedwell_gauges).

-export([watch/2, start/0, look/1, schema/0]).
-export([watching/4]).

-export_type([last/0]).

%% Sums of (active, total) for normal, dirty CPU and dirty IO schedulers.
-opaque last() :: {{integer(), integer()}, {integer(), integer()}, {integer(), integer()}}.

%% Makes a node sample its gauges at once and then at every point of a grid. The caller, which is linked to the
%% process on that node, gets {gauges, Pid, Map}. `pid` in the map is the operating system's process id, or 0 if the
%% caller cannot see the node's processes.
-spec watch(node(), IntervalMs :: pos_integer()) -> pid().
watch(Node, IntervalMs) ->
    spawn_link(Node, ?MODULE, watching, [self(), place(), IntervalMs, none]).

%% Identifies the process id namespace: the machine's boot, and the namespace within it.
place() ->
    {file:read_file("/proc/sys/kernel/random/boot_id"), file:read_link("/proc/self/ns/pid")}.

watching(Hearer, Place, IntervalMs, none) ->
    process_flag(priority, high),
    Pid = case place() of
        {{ok, _}, {ok, _}} = Place -> list_to_integer(os:getpid());
        _ -> 0
    end,
    watching(Hearer, Pid, IntervalMs, {erlang:monotonic_time(millisecond), start()});
watching(Hearer, Pid, IntervalMs, {Due, Last}) ->
    {Gauges, Next} = look(Last),
    Hearer ! {gauges, self(), Gauges#{pid => Pid}},
    erlang:send_after(Due + IntervalMs, self(), tick, [{abs, true}]),
    receive tick -> watching(Hearer, Pid, IntervalMs, {Due + IntervalMs, Next}) end.

%% Enables accounting of scheduler time, until the calling process ends.
-spec start() -> last().
start() ->
    erlang:system_flag(scheduler_wall_time, true),
    times().

%% The current gauges, and the state for the next look. Utilizations are percentages.
-spec look(last()) -> {map(), last()}.
look({Normal, Cpu, Io}) ->
    Now = {Normal1, Cpu1, Io1} = times(),
    Memory = erlang:memory([total, processes, binary, ets]),
    Gauges = #{
        sched_util => percent(Normal, Normal1), dcpu => percent(Cpu, Cpu1), dio => percent(Io, Io1),
        processes => erlang:system_info(process_count), ports => erlang:system_info(port_count),
        ets => erlang:system_info(ets_count),
        memory_total => proplists:get_value(total, Memory),
        memory_processes => proplists:get_value(processes, Memory),
        memory_binary => proplists:get_value(binary, Memory),
        memory_ets => proplists:get_value(ets, Memory)
    },
    {Gauges, Now}.

%% Names and units, in display order.
-spec schema() -> [{atom(), string()}].
schema() ->
    [{sched_util, "percent"}, {dcpu, "percent"}, {dio, "percent"}, {processes, "count"}, {ports, "count"},
     {ets, "count"}, {memory_total, "bytes"}, {memory_processes, "bytes"}, {memory_binary, "bytes"},
     {memory_ets, "bytes"}].

%% Schedulers are numbered: normal ones first, then dirty CPU ones, then dirty IO ones.
times() ->
    Schedulers = erlang:system_info(schedulers),
    Dirty = Schedulers + erlang:system_info(dirty_cpu_schedulers),
    Kind = fun(Id) when Id =< Schedulers -> 1; (Id) when Id =< Dirty -> 2; (_) -> 3 end,
    lists:foldl(fun({Id, Active, Total}, Sums) ->
        At = Kind(Id),
        {A, T} = element(At, Sums),
        setelement(At, Sums, {A + Active, T + Total})
    end, {{0, 0}, {0, 0}, {0, 0}}, all()).

all() ->
    case erlang:statistics(scheduler_wall_time_all) of
        undefined -> [];
        List -> List
    end.

percent({A, T}, {A1, T1}) when T1 > T -> (A1 - A) / (T1 - T) * 100;
percent(_, _) -> 0.0.
