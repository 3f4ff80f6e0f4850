%% Reports the node's activity at an interval: utilization, processes, memory, and iterations of its jobs.
%% Sends a map to every member of the pg groups {erlperf_monitor, node()} and cluster_monitor (scope
%% erlperf).
-module(erlperf_monitor).
-behaviour(gen_server).

-export([start/0, start/1, start_link/0, start_link/1, register/3, unregister/1]).
-export([init/1, handle_call/3, handle_cast/2, handle_info/2]).

-record(state, {
    interval :: pos_integer(),
    due :: integer(),
    last :: speedwell_gauges:last(),
    %% Jobs in order of registration, with their handles and the iterations reported last.
    jobs = [] :: [{pid(), reference(), erlperf_job:handle(), non_neg_integer()}]
}).

-spec start() -> {ok, pid()} | {error, term()}.
start() -> start(#{}).

%% interval: milliseconds, 1000 by default.
-spec start(#{interval => pos_integer()}) -> {ok, pid()} | {error, term()}.
start(Options) -> gen_server:start({local, ?MODULE}, ?MODULE, Options, []).

-spec start_link() -> {ok, pid()} | {error, term()}.
start_link() -> start_link(#{}).

-spec start_link(#{interval => pos_integer()}) -> {ok, pid()} | {error, term()}.
start_link(Options) -> gen_server:start_link({local, ?MODULE}, ?MODULE, Options, []).

%% From now on the job is included in reports. No effect without a running monitor.
-spec register(pid(), erlperf_job:handle(), non_neg_integer()) -> ok.
register(Job, Handle, Sample) ->
    gen_server:cast(?MODULE, {register, Job, Handle, Sample}).

-spec unregister(pid()) -> ok.
unregister(Job) ->
    gen_server:cast(?MODULE, {unregister, Job}).

init(Options) ->
    process_flag(priority, high),
    Interval = maps:get(interval, Options, 1000),
    {ok, scheduled(#state{interval = Interval, due = erlang:monotonic_time(millisecond), last = speedwell_gauges:start()})}.

%% Ticks are on a grid, so that lateness does not accumulate.
scheduled(State = #state{interval = Interval, due = Due}) ->
    erlang:send_after(Due + Interval, self(), tick, [{abs, true}]),
    State#state{due = Due + Interval}.

handle_call(_, _, State) -> {reply, ok, State}.

handle_cast({register, Job, Handle, Sample}, State = #state{jobs = Jobs}) ->
    {noreply, State#state{jobs = Jobs ++ [{Job, erlang:monitor(process, Job), Handle, Sample}]}};
handle_cast({unregister, Job}, State) ->
    {noreply, without(Job, State)}.

handle_info(tick, State = #state{last = Last, jobs = Jobs}) ->
    {Gauges, Next} = speedwell_gauges:look(Last),
    Read = [{Entry, sample(Handle, Before)} || {_, _, Handle, Before} = Entry <- Jobs],
    Map = Gauges#{time => erlang:system_time(millisecond), node => node(),
                  jobs => [{Job, Now - Before} || {{Job, _, _, Before}, Now} <- Read]},
    [Pid ! Map || Group <- [{?MODULE, node()}, cluster_monitor], Pid <- members(Group)],
    {noreply, scheduled(State#state{last = Next, jobs = [setelement(4, Entry, Now) || {Entry, Now} <- Read]})};
handle_info({'DOWN', _, process, Job, _}, State) ->
    {noreply, without(Job, State)};
handle_info(_, State) ->
    {noreply, State}.

without(Gone, State = #state{jobs = Jobs}) ->
    State#state{jobs = lists:keydelete(Gone, 1, Jobs)}.

%% A job that has just ended counts as idle.
sample(Handle, Before) ->
    case erlperf_job:sample(Handle) of undefined -> Before; Now -> Now end.

members(Group) ->
    try pg:get_members(erlperf, Group) catch error:badarg -> [] end.
