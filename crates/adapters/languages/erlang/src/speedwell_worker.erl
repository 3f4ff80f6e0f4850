%% One worker: a process that executes batches of iterations and reads the clock once per batch. Its job
%% (`speedwell_job`) controls it by messages while it is parked, and by a flag while it works: user code may swallow
%% messages, and a full mailbox would make receiving one expensive. Start reading at start/3; batch/2 measures.
-module(speedwell_worker).

-export([start/3, once/3, call/3]).

%% 50 us and 2 ms: long enough to make the clock negligible, short enough to end a window in time.
-define(SHORT_NS, 50000).
-define(LONG_NS, 2000000).

-record(worker, {
    job :: pid(),
    module :: module(),
    loop :: atom(),
    %% Arguments of the loop after the count and the previous result.
    extra :: list(),
    result :: term(),
    size = 1 :: pos_integer(),
    count = 0 :: non_neg_integer(),
    published :: counters:counters_ref(),
    histogram :: speedwell_histogram:histogram()
}).

-record(run, {
    flag :: atomics:atomics_ref(),
    %% Clock readings and durations are in native units of the clock.
    epoch :: integer(),
    interval :: pos_integer(),
    wanted :: pos_integer(),
    stream :: boolean(),
    %% Files with processor time; none if not requested.
    clock :: [file:filename()]
}).

%% Starts a worker, linked to and monitored by the caller. It executes init_runner, sends `{ready, Pid}` and waits.
%% `Published` is where it stores its number of iterations for all readers.
-spec start(speedwell_code:ready(), Shared :: term(), counters:counters_ref()) -> {pid(), reference()}.
start(Ready, Shared, Published) ->
    Job = self(),
    spawn_opt(fun() -> init(Job, Ready, Shared, Published) end, [link, monitor]).

init(Job, Ready, Shared, Published) ->
    try prepare(Ready, Shared) of
        {Extra, Result} ->
            #{module := Module, batch := Loop} = Ready,
            Job ! {ready, self()},
            parked(#worker{job = Job, module = Module, loop = Loop, extra = Extra, result = Result,
                           published = Published, histogram = speedwell_histogram:new()})
    catch
        Class:Reason:Stack -> fail(Job, init_runner, Class, Reason, Stack)
    end.

%% The arguments of the loop, and the previous result for the first iteration.
prepare(#{module := Module, init_runner := Hook, arity := Arity, extra := Extra}, Shared) ->
    State = call(Module, Hook, Shared),
    case Arity of
        0 -> {Extra, undefined};
        1 -> {Extra ++ [State], undefined};
        2 -> {Extra ++ [State], State}
    end.

%% Calls a hook, with the result of another hook if it takes that.
-spec call(module(), speedwell_code:hook(), term()) -> term().
call(_, none, _) -> undefined;
call(Module, {local, Name, 0}, _) -> Module:Name();
call(Module, {local, Name, 1}, Given) -> Module:Name(Given);
call(_, {mfa, M, F, A}, _) -> apply(M, F, A);
call(_, {list, List}, _) -> lists:last([apply(M, F, A) || {M, F, A} <- List]);
call(_, {'fun', Fun}, _) when is_function(Fun, 0) -> Fun();
call(_, {'fun', Fun}, Given) -> Fun(Given).

fail(Job, Stage, Class, Reason, Stack) ->
    Job ! {failed, self(), #{stage => Stage, class => Class, reason => Reason, stack => Stack}}.

parked(Worker = #worker{job = Job}) ->
    receive
        {speedwell, Job, Work} ->
            try work(Work, Worker) of
                Idle -> parked(Idle)
            catch
                Class:Reason:Stack -> fail(Job, run, Class, Reason, Stack)
            end
    end.

work({live, Flag}, Worker) ->
    live(Flag, erlang:monotonic_time(), Worker);
work({continuous, Flag, Epoch, {Warmup, Interval, Wanted, Stream, Clock}}, Worker = #worker{histogram = Histogram}) ->
    speedwell_histogram:taken(Histogram),
    Run = #run{flag = Flag, epoch = Epoch, interval = Interval, wanted = Wanted, stream = Stream, clock = Clock},
    Start = wait_for(Epoch),
    Fresh = Worker#worker{count = 0},
    {Points, Late, Done} = case Warmup of
        %% Without warm-up the first point is the start itself.
        0 ->
            From = begun(Run, 0, Start),
            Time = case From of Start -> 0; _ -> From - Epoch end,
            window(Run, Epoch + Interval, From, 1, passed(Run, 0, Time, [], Fresh), 0, Fresh);
        _ -> window(Run, Epoch + Warmup, Start, 0, [], 0, Fresh)
    end,
    report(#{points => lists:reverse(Points), late => nanoseconds(Late), cpu_ns => processor_time()}, Done);
work({timed, Flag, Epoch, Loop}, Worker = #worker{histogram = Histogram}) ->
    speedwell_histogram:taken(Histogram),
    Start = wait_for(Epoch),
    {End, Left, Done} = timed(Flag, Loop, Loop, Start, Worker),
    report(#{start => Start, stop => End, left => Left}, Done).

report(What, Worker = #worker{job = Job, histogram = Histogram, size = Size}) ->
    Job ! {report, self(), What#{batch => Size, batches => speedwell_histogram:taken(Histogram)}},
    Worker.

%% All workers start together. The wait is short, so it is a loop that yields.
wait_for(Epoch) ->
    case erlang:monotonic_time() of
        Now when Now >= Epoch -> Now;
        _ -> erlang:yield(), wait_for(Epoch)
    end.

%% One batch. All bookkeeping is outside of the called loop.
batch(Size, Worker = #worker{module = Module, loop = Loop, result = Result, extra = Extra, count = Count,
                             published = Published}) ->
    Last = apply(Module, Loop, [Size, Result | Extra]),
    counters:add(Published, 1, Size),
    Worker#worker{result = Last, count = Count + Size}.

%% Runs until the flag is raised.
live(Flag, From, Worker = #worker{size = Size}) ->
    Next = batch(Size, Worker),
    To = erlang:monotonic_time(),
    case atomics:get(Flag, 1) of
        0 -> live(Flag, To, adapted(To - From, Next));
        _ -> Next
    end.

adapted(Native, Worker = #worker{size = Size}) ->
    case nanoseconds(Native) of
        Short when Short < ?SHORT_NS -> Worker#worker{size = Size * 2};
        Long when Long > ?LONG_NS, Size > 1 -> Worker#worker{size = Size div 2};
        _ -> Worker
    end.

nanoseconds(Native) ->
    erlang:convert_time_unit(Native, native, nanosecond).

%% Windows on a grid of deadlines: K points are recorded, the next one is due at Deadline, the last batch ended at From.
window(Run = #run{flag = Flag, epoch = Epoch, interval = Interval, wanted = Wanted}, Deadline, From, K, Points, Late,
       Worker = #worker{size = Size, histogram = Histogram}) ->
    Next = batch(Size, Worker),
    To = erlang:monotonic_time(),
    %% Only batches that are completely between the first point and the last one count.
    K > 0 andalso K < Wanted andalso add(Histogram, To - From, Size),
    Adapted = adapted(To - From, Next),
    Ended = atomics:get(Flag, 1) =/= 0,
    if
        %% The point of the batch in which a run was stopped may be the only record of its iterations.
        To >= Deadline, K < Wanted ->
            Ahead = Deadline + Interval * ((To - Deadline) div Interval + 1),
            Now = begun(Run, K, To),
            More = passed(Run, K, Now - Epoch, Points, Adapted),
            LateNow = max(Late, To - Deadline),
            if
                Ended -> {More, LateNow, Adapted};
                true -> window(Run, Ahead, Now, K + 1, More, LateNow, Adapted)
            end;
        Ended -> {Points, Late, Adapted};
        true -> window(Run, Deadline, To, K, Points, Late, Adapted)
    end.

add(Histogram, Native, Size) ->
    speedwell_histogram:add(Histogram, nanoseconds(Native) * 1000 div Size).

%% Records a point. The job is notified of the last one, and of all of them if there is an observer.
passed(#run{wanted = Wanted, stream = Stream, clock = Clock}, K, Time, Points, #worker{job = Job, count = Count}) ->
    Point = {nanoseconds(Time), Count},
    Stream andalso (Job ! {point, self(), K, Point}),
    Clock =/= [] andalso K > 0 andalso K + 1 =:= Wanted andalso ended(Clock),
    K + 1 =:= Wanted andalso (Job ! {last_point, self()}),
    [Point | Points].

%% Records when the windows begin, at the first point, after reading the processor clock. Kept in the process
%% dictionary, as that happens only twice per run.
begun(#run{clock = [_ | _] = Clock}, 0, _) ->
    put(speedwell_cpu, {speedwell_clock:now_ns(Clock), undefined}),
    erlang:monotonic_time();
begun(_, _, Now) ->
    Now.

ended(Clock) ->
    {From, _} = get(speedwell_cpu),
    put(speedwell_cpu, {From, speedwell_clock:now_ns(Clock)}).

%% Between the first point and the last one; `undefined` if not requested, or if the run ended before.
processor_time() ->
    case erase(speedwell_cpu) of
        {From, To} when is_integer(To) -> To - From;
        _ -> undefined
    end.

%% `Left` iterations in batches of which the last may be shorter.
timed(_, 0, _, From, Worker) ->
    {From, 0, Worker};
timed(Flag, Left, Loop, From, Worker = #worker{size = Size, histogram = Histogram}) ->
    Now = min(Size, Left),
    Next = batch(Now, Worker),
    To = erlang:monotonic_time(),
    %% The final batch is usually too short to be timed well.
    (Now * 2 >= Size orelse Left =:= Loop) andalso add(Histogram, To - From, Now),
    Adapted = case Now of Size -> adapted(To - From, Next); _ -> Next end,
    case atomics:get(Flag, 1) of
        0 -> timed(Flag, Left - Now, Loop, To, Adapted);
        _ -> {To, Left - Now, Adapted}
    end.

%% Executes `Loop` iterations in a separate process with its own state; returns microseconds.
-spec once(speedwell_code:ready(), Shared :: term(), pos_integer()) -> non_neg_integer().
once(Ready = #{module := Module, batch := Name}, Shared, Loop) ->
    {Extra, Result} = prepare(Ready, Shared),
    From = erlang:monotonic_time(),
    apply(Module, Name, [Loop, Result | Extra]),
    erlang:convert_time_unit(erlang:monotonic_time() - From, native, microsecond).
