%% Conducts a run: starts all jobs at one epoch, waits for the last point of every worker, releases all, and
%% collects their results. Used by the harness and the shell. Start reading at continuous/3 and timed/3.
-module(speedwell_run).

-export([continuous/3, timed/3]).

-export_type([outcome/0]).

%% The outcome of a job: its reports, one per worker, or how it ended.
-type outcome() :: {ok, [map()]} | {failed, term()}.
-type observer() :: fun((Job :: pid(), {point, W :: non_neg_integer(), K :: non_neg_integer(), term()}) -> term()).

%% Delay until the workers of a run start: enough to notify all of them.
-define(LEAD_NS, 200000).
-define(LEAD_OF_A_WORKER_NS, 5000).

%% How long a stopped run waits for iterations to end.
-define(PATIENCE_MS, 5000).

%% Runs windows. Plan: interval_ns, samples, warmup_ns; optionally observer, called for every point, and clock,
%% the files with processor time. The message `{stop, _}` ends it early.
-spec continuous([pid()], #{interval_ns := pos_integer(), samples := pos_integer(), warmup_ns := non_neg_integer(),
                            clock => [file:filename()], observer => observer()}, pos_integer()) -> {[{pid(), outcome()}], map()}.
continuous(Jobs, #{interval_ns := Interval, samples := Samples, warmup_ns := Warmup} = Plan, Workers) ->
    Grid = {native(Warmup), native(Interval), Samples + 1, is_map_key(observer, Plan), maps:get(clock, Plan, [])},
    {Epoch, Open} = start(Jobs, continuous, Grid, Workers),
    State = #{open => Open, unpassed => maps:keys(Open), observer => maps:get(observer, Plan, fun(_, _) -> ok end),
              done => #{}, stopped => false},
    #{done := Done, stopped := Stopped} = collect(State),
    Late = [Late || {ok, Reports} <- maps:values(Done), #{late := Late} <- Reports],
    {[{Job, maps:get(Job, Done)} || Job <- Jobs],
     #{elapsed_ns => since(Epoch), max_late_ns => lists:max([0 | Late]), stopped => Stopped}}.

%% Runs samples of `loop` iterations per worker. Samples are lists of reports, in order.
-spec timed([pid()], #{loop := pos_integer(), samples := pos_integer(), warmup_ns := non_neg_integer()}, pos_integer()) ->
    {[{pid(), {ok, [[map()]]} | {failed, term()}}], map()}.
timed(Jobs, #{loop := Loop, samples := Samples, warmup_ns := Warmup}, Workers) ->
    Begin = erlang:monotonic_time(),
    Done = timed_samples(Jobs, Loop, Samples, Begin + native(Warmup), Workers, maps:from_list([{Job, []} || Job <- Jobs])),
    {[{Job, outcome(maps:get(Job, Done))} || Job <- Jobs],
     #{elapsed_ns => since(Begin), max_late_ns => 0, stopped => false}}.

outcome({failed, _} = Failed) -> Failed;
outcome(Samples) -> {ok, lists:reverse(Samples)}.

timed_samples(_, _, 0, _, _, Done) ->
    Done;
timed_samples(Jobs, Loop, Left, WarmUntil, Workers, Done) ->
    Warming = erlang:monotonic_time() < WarmUntil,
    {_, Open} = start(Jobs, timed, Loop, Workers),
    %% There is no last point to wait for: a sample ends with its last iteration.
    State = #{open => Open, unpassed => [], observer => fun(_, _) -> ok end, done => #{}, stopped => false},
    #{done := Outcomes, stopped := Stopped} = collect(State),
    Whole = fun(Reports) -> lists:all(fun(#{left := Rest}) -> Rest =:= 0 end, Reports) end,
    Keep = fun(_, {failed, _} = Failed, _) -> Failed;
              (_, {ok, Reports}, Before) ->
                  case not Warming andalso Whole(Reports) of true -> [Reports | Before]; false -> Before end
           end,
    Now = maps:map(fun(Job, Before) when is_map_key(Job, Outcomes) -> Keep(Job, maps:get(Job, Outcomes), Before);
                      (_, Before) -> Before
                   end, Done),
    Going = [Job || Job <- Jobs, not is_tuple(maps:get(Job, Now))],
    case {Stopped, Going, Warming} of
        {true, _, _} -> Now;
        {_, [], _} -> Now;
        {_, _, true} -> timed_samples(Going, Loop, Left, WarmUntil, Workers, Now);
        {_, _, false} -> timed_samples(Going, Loop, Left - 1, WarmUntil, Workers, Now)
    end.

%% All start at one epoch. The result has a reference and a monitor for each job.
start(Jobs, Mode, What, Workers) ->
    Open = maps:from_list([{Job, {make_ref(), erlang:monitor(process, Job)}} || Job <- Jobs]),
    Epoch = erlang:monotonic_time() + native(?LEAD_NS + Workers * ?LEAD_OF_A_WORKER_NS),
    [speedwell_job:run(Job, Ref, {Mode, Epoch, What}) || {Job, {Ref, _}} <- maps:to_list(Open)],
    {Epoch, Open}.

collect(State = #{open := Open}) when map_size(Open) =:= 0 ->
    State;
collect(State = #{open := Open, done := Done, unpassed := Unpassed, observer := Observer}) ->
    receive
        {stop, _} ->
            release(Open),
            erlang:send_after(?PATIENCE_MS, self(), {give_up, Open}),
            collect(State#{stopped => true});
        {give_up, Runs} ->
            Failure = #{stage => timeout, class => timeout, stack => [],
                        reason => io_lib:format("an iteration did not end within ~w ms of 'stop'", [?PATIENCE_MS])},
            [speedwell_job:abandon(Job, Ref, Failure) || {Job, {Ref, _}} <- maps:to_list(Runs), is_map_key(Job, Open)],
            collect(State);
        {_, Job, passed} when is_map_key(Job, Open) ->
            collect(released(lists:delete(Job, Unpassed), State));
        {_, Job, {point, _, _, _} = Point} ->
            Observer(Job, Point),
            collect(State);
        {_, Job, {reports, Reports}} when is_map_key(Job, Open) ->
            {_, Monitor} = maps:get(Job, Open),
            erlang:demonitor(Monitor, [flush]),
            collect(State#{open => maps:remove(Job, Open), done => Done#{Job => {ok, Reports}}});
        {'DOWN', _, process, Job, Reason} when is_map_key(Job, Open) ->
            Left = State#{open => maps:remove(Job, Open), done => Done#{Job => {failed, Reason}}},
            collect(released(lists:delete(Job, Unpassed), Left))
    end.

%% When the last worker has its last point, all may end.
released([], State = #{open := Open}) ->
    release(Open),
    State#{unpassed => []};
released(Unpassed, State) ->
    State#{unpassed => Unpassed}.

release(Open) ->
    [speedwell_job:release(Job, Ref) || {Job, {Ref, _}} <- maps:to_list(Open)].

native(Nanoseconds) ->
    erlang:convert_time_unit(Nanoseconds, nanosecond, native).

since(Begin) ->
    erlang:convert_time_unit(erlang:monotonic_time() - Begin, native, nanosecond).
