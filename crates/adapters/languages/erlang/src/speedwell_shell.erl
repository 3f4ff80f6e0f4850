%% Measures from the shell: code maps and options in, results out. Several pieces of code alternate, one window
%% each, so that slow and fast phases of the machine affect all alike, and none takes processor time from
%% another. Start reading at measure/2 and squeeze/3. `erlperf` converts results to its documented formats.
-module(speedwell_shell).

-export([measure/2, squeeze/3]).

-export_type([figures/0]).

%% counts: in continuous mode iterations per sample_duration, exact; in timed mode microseconds.
-type figures() :: #{counts := [number()], workers := pos_integer(), time_us := non_neg_integer(),
                     iteration_ns := float() | infinity, begun := number()}.

%% Measures codes with complete options.
-spec measure([map()], map()) -> [figures()].
measure(Codes, Options) ->
    with_jobs(Codes, Options, fun(Jobs) ->
        [ok = workers(Job, maps:get(concurrency, Options)) || Job <- Jobs],
        rounds(Jobs, Options)
    end).

with_jobs(Codes, #{priority := Priority}, Body) ->
    Before = process_flag(priority, Priority),
    Jobs = started(Codes, []),
    try Body(Jobs) after
        [speedwell_job:close(Job) || Job <- Jobs],
        process_flag(priority, Before)
    end.

started([], Jobs) ->
    lists:reverse(Jobs);
started([Code | Codes], Jobs) ->
    try {ok, Job} = erlperf_job:start_parked(Code), Job of
        Job -> started(Codes, [Job | Jobs])
    catch
        Class:Reason:Stack ->
            [speedwell_job:close(Job) || Job <- Jobs],
            erlang:raise(Class, Reason, Stack)
    end.

workers(Job, Count) ->
    try speedwell_job:set_workers(Job, Count)
    catch exit:{Reason, {gen_server, call, _}} -> failed(Job, Reason)
    end.

%% Users of erlperf match on this: a job that ended during the measurement, with the reason of its code.
-spec failed(pid(), term()) -> no_return().
failed(Job, Reason) ->
    erlang:error({benchmark, {'EXIT', Job, speedwell_error:exit_reason(speedwell_job:failure(Reason))}}).

%% A single piece of code has consecutive windows; with several, each has one per round.
rounds(Jobs, Options = #{samples := Samples, warmup := Warmup}) ->
    Empty = [{Job, []} || Job <- Jobs],
    Taken = case Jobs of
        [_] -> taken(Empty, Samples, Warmup, Options);
        _ -> lists:foldl(fun(Round, Into) -> taken(Into, 1, case Round of 1 -> Warmup; _ -> 0 end, Options) end,
                         Empty, lists:seq(1, Samples))
    end,
    [figures(Windows, Options) || {_, Windows} <- until_steady(Taken, Options)].

taken(Jobs, Samples, Warmup, Options) ->
    [{Job, Before ++ windows(Job, Samples, Warmup, Options)} || {Job, Before} <- Jobs].

%% The oldest samples are replaced by new ones until the deviation is small enough for all codes.
until_steady(Jobs, #{cv := undefined}) ->
    Jobs;
until_steady(Jobs, Options = #{cv := Cv}) ->
    case lists:all(fun({_, Windows}) -> is_steady([Count || {Count, _, _} <- Windows], Cv) end, Jobs) of
        true -> Jobs;
        false -> until_steady([{Job, tl(Windows)} || {Job, Windows} <- taken(Jobs, 1, 0, Options)], Options)
    end.

is_steady(Counts, Cv) ->
    case speedwell_statistics:of_samples(Counts) of
        #{stddev := undefined} -> true;
        #{average := Average} when Average == 0 -> true;
        #{stddev := Deviation, average := Average} -> Deviation / Average =< Cv
    end.

%% A window: its result, its duration in nanoseconds, and iterations of one worker per nanosecond.
windows(Job, Samples, Warmup, #{sample_duration := {timed, Loop}, concurrency := Workers}) ->
    case speedwell_run:timed([Job], #{loop => Loop, samples => Samples + Warmup, warmup_ns => 0}, Workers) of
        {[{Job, {ok, Kept}}], _} ->
            [begin
                 Native = lists:max([E || #{stop := E} <- Reports]) - lists:min([S || #{start := S} <- Reports]),
                 Ns = erlang:convert_time_unit(Native, native, nanosecond),
                 {round(Ns / 1000), Ns, Loop / max(1, Ns)}
             end || Reports <- lists:nthtail(Warmup, Kept)];
        {[{Job, {failed, Reason}}], _} -> failed(Job, Reason)
    end;
windows(Job, Samples, Warmup, #{sample_duration := Ms, concurrency := Workers}) ->
    Interval = Ms * 1000000,
    Plan = #{interval_ns => Interval, samples => Samples, warmup_ns => Warmup * Interval},
    case speedwell_run:continuous([Job], Plan, Workers) of
        {[{Job, {ok, Reports}}], _} ->
            Differences = [differences(Points) || #{points := Points} <- Reports],
            [window([lists:nth(K, Each) || Each <- Differences], Interval) || K <- lists:seq(1, Samples)];
        {[{Job, {failed, Reason}}], _} -> failed(Job, Reason)
    end.

differences([{T1, C1} | [{T2, C2} | _] = Rest]) -> [{T2 - T1, C2 - C1} | differences(Rest)];
differences([_]) -> [].

%% Workers end their windows at different times, so their rates are added, not their counts.
window(OfWorkers, Interval) ->
    Rate = lists:sum([Count / Ns || {Ns, Count} <- OfWorkers]),
    Mean = lists:sum([Ns || {Ns, _} <- OfWorkers]) div length(OfWorkers),
    {Rate * Interval, Mean, Rate / length(OfWorkers)}.

figures(Windows, #{concurrency := Workers}) ->
    Rates = [Rate || {_, _, Rate} <- Windows],
    Rate = lists:sum(Rates) / length(Rates),
    #{counts => [Count || {Count, _, _} <- Windows], workers => Workers,
      time_us => lists:sum([Ns || {_, Ns, _} <- Windows]) div 1000,
      iteration_ns => case Rate > 0 of true -> 1 / Rate; false -> infinity end}.

%% Searches the number of workers beyond which throughput does not grow. Passes are ordered newest first.
-spec squeeze(map(), map(), map()) -> {Best :: figures(), [figures()]}.
squeeze(Code, Options, Limits = #{min := Min}) ->
    with_jobs([Code], Options, fun([Job]) -> climb(Job, Min, [], Options, Limits) end).

climb(Job, Workers, Before, Options, Limits = #{step := Step, max := Max, threshold := Threshold}) ->
    ok = workers(Job, Workers),
    [Pass] = rounds([Job], Options#{concurrency => Workers}),
    Passes = [Pass | Before],
    #{workers := Reached} = Best = best(Passes),
    Next = (Workers + Step) div Step * Step,
    case Next > Max orelse Workers - Reached >= Threshold of
        true -> {Best, Passes};
        false -> climb(Job, Next, Passes, Options, Limits)
    end.

%% The pass with the fewest workers that no other pass beats beyond noise.
best(Passes) ->
    Counts = fun(#{counts := C}) -> C end,
    Unbeaten = [Pass || Pass <- Passes,
                        not lists:any(fun(Other) -> speedwell_statistics:beyond_noise(Counts(Other), Counts(Pass)) end, Passes)],
    lists:last(Unbeaten).
