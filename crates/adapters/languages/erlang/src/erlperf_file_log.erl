%% Writes a line to a device or a file for each report of this node's monitor. Formats numbers as erlperf
%% does, also for other modules.
-module(erlperf_file_log).
-behaviour(gen_server).

-export([start_link/0, start_link/1, format_number/1, format_size/1, format_duration/1, time/1]).
-export([init/1, handle_call/3, handle_cast/2, handle_info/2]).

%% Lines between two headers.
-define(HEADER_EVERY, 30).

-record(state, {device :: io:device(), lines = 0 :: non_neg_integer(), jobs = none :: none | [pid()]}).

%% To the group leader.
-spec start_link() -> {ok, pid()} | {error, term()}.
start_link() -> start_link(group_leader()).

%% To a device, or to the end of a file.
-spec start_link(io:device() | file:filename_all()) -> {ok, pid()} | {error, term()}.
start_link(Target) -> gen_server:start_link(?MODULE, Target, []).

init(Target) ->
    case opened(Target) of
        {ok, Device} ->
            ok = pg:join(erlperf, {erlperf_monitor, node()}, self()),
            {ok, #state{device = Device}};
        {error, Reason} -> {stop, Reason}
    end.

opened(Device) when is_pid(Device); is_atom(Device) -> {ok, Device};
opened(File) -> file:open(File, [raw, append]).

handle_call(_, _, State) -> {reply, ok, State}.
handle_cast(_, State) -> {noreply, State}.

handle_info(#{jobs := Jobs} = Map, State = #state{lines = Lines, jobs = Known}) ->
    Pids = [Job || {Job, _} <- Jobs],
    Header = Pids =/= Known orelse Lines rem ?HEADER_EVERY =:= 0,
    [ok = write(State#state.device, header(Pids)) || Header],
    ok = write(State#state.device, line(Map)),
    {noreply, State#state{jobs = Pids, lines = case Header of true -> 1; false -> Lines + 1 end}};
handle_info(_, State) ->
    {noreply, State}.

write({file_descriptor, _, _} = File, Text) -> file:write(File, Text);
write(Device, Text) -> io:put_chars(Device, Text).

header(Jobs) ->
    ["\nYYYY-MM-DDTHH:MM:SS-oo:oo  Sched   DCPU    DIO    Procs    Ports     ETS Mem Total  Mem Proc   Mem Bin   Mem ETS",
     [string:pad(pid_to_list(Job), 13, leading) || Job <- Jobs], "\n"].

line(#{time := Time, sched_util := Sched, dcpu := Cpu, dio := Io, processes := Processes, ports := Ports, ets := Ets,
       memory_total := Total, memory_processes := OfProcesses, memory_binary := OfBinaries, memory_ets := OfEts,
       jobs := Jobs}) ->
    io_lib:format("~s ~6.2f ~6.2f ~6.2f ~8b ~8b ~7b ~9s ~9s ~9s ~9s~s~n",
                  [time(Time), Sched, Cpu, Io, Processes, Ports, Ets, format_size(Total), format_size(OfProcesses),
                   format_size(OfBinaries), format_size(OfEts),
                   [io_lib:format(" ~12s", [format_number(Count)]) || {_, Count} <- Jobs]]).

%% Wall-clock milliseconds as date, time and offset.
-spec time(integer()) -> string().
time(Ms) ->
    calendar:system_time_to_rfc3339(Ms div 1000).

%% Powers of 1000, rounded, with erlperf's letters.
-spec format_number(number()) -> string().
format_number(N) ->
    scaled(N, [{100000000000000, 1000000000000, " Ti"}, {100000000000, 1000000000, " Gi"},
               {100000000, 1000000, " Mi"}, {100000, 1000, " Ki"}], "").

%% Powers of 1024; each unit is used from 100 on.
-spec format_size(non_neg_integer()) -> string().
format_size(Bytes) ->
    scaled(Bytes, [{100 bsl 40, 1 bsl 40, " Tb"}, {100 bsl 30, 1 bsl 30, " Gb"}, {100 bsl 20, 1 bsl 20, " Mb"},
                   {100 bsl 10, 1 bsl 10, " Kb"}], "").

%% Nanoseconds, in the unit that gives at most 100000.
-spec format_duration(number() | infinity) -> string().
format_duration(infinity) -> "inf";
format_duration(Ns) ->
    scaled(Ns, [{6000000000000, 60000000000, " m"}, {100000000000, 1000000000, " s"}, {100000000, 1000000, " ms"},
                {100000, 1000, " us"}], " ns").

scaled(Value, [{Above, Unit, Name} | _], _) when Value > Above -> integer_to_list(round(Value / Unit)) ++ Name;
scaled(Value, [_ | Smaller], Plain) -> scaled(Value, Smaller, Plain);
scaled(Value, [], Plain) -> integer_to_list(round(Value)) ++ Plain.
