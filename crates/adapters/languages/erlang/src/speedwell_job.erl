%% A job: one piece of code and its workers. The job's process executes init, so that servers started and linked
%% by init live as long as the job; it starts and ends workers, passes runs to them, and executes done.
%% Independent of the protocol and of results. `speedwell_run` conducts runs. Start reading at start/2.
-module(speedwell_job).
-behaviour(gen_server).

-export([start/2, start_link/2, set_workers/2, workers/1, go_live/1, sample/1, handle/1, measure/2, ready/1,
         set_priority/2, run/3, release/2, abandon/3, close/1, request_stop/1, failure/1]).
-export([init/1, handle_call/3, handle_cast/2, handle_info/2, terminate/2, format_status/1]).

%% parent: the job ends with it. node: where it runs. order: which surplus workers end first. watched: the job
%% ends with this process. on_done_error: called with the error of a failing `done`. exit_reason: the job's exit
%% reason on failure, by default {shutdown, {speedwell_failed, Failure}}, which is not logged: the harness reports
%% failures itself, and its standard output belongs to the user's code.
-type options() :: #{parent => pid(), node => node(), order => newest | oldest, live => boolean(),
                     watched => pid(),
                     on_done_error => fun((map()) -> term()),
                     exit_reason => fun((map()) -> term()), priority => erlang:priority_level()}.
%% `then` is the subsequent failure of `done`.
-type failure() :: #{stage := atom(), class := atom(), reason := term(), stack := list(), then => failure()}.
%% Counts iterations; readable on the job's node without involving the job.
-opaque handle() :: {pid(), counters:counters_ref()}.
-export_type([options/0, failure/0, handle/0]).

-record(job, {
    ready :: speedwell_code:ready(),
    options :: options(),
    shared :: term(),
    %% Oldest first.
    workers = [] :: [pid()],
    %% Iterations of all workers, including those that have ended.
    counted :: counters:counters_ref(),
    live = false :: boolean(),
    flag :: atomics:atomics_ref(),
    %% The priority while there are workers, and the one to restore.
    priority :: erlang:priority_level(),
    idle_priority :: erlang:priority_level(),
    %% The caller that waits for new workers, the workers not yet ready, and all new ones.
    waiting = none :: none | {gen_server:from(), [pid()], [pid()]},
    %% Changes of the number of workers that arrived meanwhile.
    later = [] :: [{non_neg_integer(), gen_server:from()}],
    run = none :: none | map(),
    measuring = none :: none | {pid(), reference(), gen_server:from()},
    %% Whether `done` has been executed.
    closed = false :: boolean()
}).

%% Starts a job without workers. If init fails, returns the job's exit reason.
-spec start(speedwell_code:ready(), options()) -> {ok, pid()} | {error, term()}.
start(Ready, #{node := Node} = Options) when Node =/= node() ->
    try erpc:call(Node, gen_server, start, [?MODULE, {Ready, Options}, []])
    catch error:{erpc, Reason} -> {error, Reason}
    end;
start(Ready, Options) ->
    gen_server:start(?MODULE, {Ready, Options}, []).

%% The same, linked to the caller.
-spec start_link(speedwell_code:ready(), options()) -> {ok, pid()} | {error, term()}.
start_link(Ready, Options) ->
    gen_server:start_link(?MODULE, {Ready, Options}, []).

%% Starts or ends workers until there are this many, and waits for init_runner of all new ones.
-spec set_workers(pid(), non_neg_integer()) -> ok.
set_workers(Job, Count) -> ask(Job, {workers, Count}).

-spec workers(pid()) -> non_neg_integer().
workers(Job) -> ask(Job, workers).

%% From now on workers execute iterations continuously.
-spec go_live(pid()) -> ok.
go_live(Job) -> ask(Job, go_live).

%% Iterations so far, requested from the job, or read from its handle, which does not wait for the job and returns
%% undefined when it has ended.
-spec sample(pid() | handle()) -> non_neg_integer() | undefined.
sample({Job, Counted}) ->
    case is_process_alive(Job) of
        true -> counters:get(Counted, 1);
        false -> undefined
    end;
sample(Job) -> ask(Job, sample).

-spec handle(pid()) -> handle().
handle(Job) -> ask(Job, handle).

%% Microseconds for this many iterations of an additional worker.
-spec measure(pid(), pos_integer()) -> non_neg_integer() | already_started | {error, term()}.
measure(Job, Count) -> ask(Job, {measure, Count}).

-spec ready(pid()) -> speedwell_code:ready().
ready(Job) -> ask(Job, ready).

%% Sets the priority of the job's process while it has workers. Returns the previous one.
-spec set_priority(pid(), erlang:priority_level()) -> erlang:priority_level().
set_priority(Job, Priority) -> ask(Job, {priority, Priority}).

%% Passes a run to all workers. The caller gets {Ref, Job, What}: `passed` when every worker has its last point,
%% {point, W, K, {TimeNs, Count}}, and finally {reports, [Report]}.
-spec run(pid(), reference(), {continuous | timed, Epoch :: integer(), term()}) -> ok.
run(Job, Ref, {Mode, Epoch, What}) ->
    %% Another node's clock has another origin, so the remaining time is sent as well.
    Job ! {run, self(), Ref, Mode, {node(), Epoch, Epoch - erlang:monotonic_time()}, What},
    ok.

%% Ends the run after the current batches.
-spec release(pid(), reference()) -> ok.
release(Job, Ref) ->
    Job ! {release, Ref},
    ok.

%% Aborts a run whose workers do not complete an iteration: the job fails.
-spec abandon(pid(), reference(), failure()) -> ok.
abandon(Job, Ref, Failure) ->
    Job ! {abandon, Ref, Failure},
    ok.

%% Ends the workers, executes done, ends the job, and waits for its exit. Returns the failure of `done`.
-spec close(pid()) -> none | failure().
close(Job) ->
    Monitor = erlang:monitor(process, Job),
    Failure = try ask(Job, close) catch exit:_ -> none end,
    receive {'DOWN', Monitor, process, Job, _} -> Failure end.

%% The same without waiting. on_done_error gets the failure of `done`.
-spec request_stop(pid()) -> ok.
request_stop(Job) ->
    gen_server:cast(Job, stop).

%% Returns why a job failed, from its exit reason.
-spec failure(term()) -> failure().
failure({shutdown, {speedwell_failed, Failure}}) -> Failure;
failure(Reason) -> #{stage => run, class => exit, reason => Reason, stack => []}.

ask(Job, Request) ->
    gen_server:call(Job, Request, infinity).

%% The job's process

init({Ready = #{module := Module, init := Hook}, Options}) ->
    process_flag(trap_exit, true),
    Parent = maps:get(parent, Options, none),
    is_pid(Parent) andalso link(Parent),
    [erlang:monitor(process, Watched) || Watched <- [maps:get(watched, Options, none)], is_pid(Watched)],
    speedwell_code:load(Ready),
    try speedwell_worker:call(Module, Hook, undefined) of
        Shared ->
            {priority, Idle} = process_info(self(), priority),
            {ok, #job{ready = Ready, options = Options, shared = Shared, flag = atomics:new(1, []),
                      counted = counters:new(1, [write_concurrency]), live = maps:get(live, Options, false),
                      priority = maps:get(priority, Options, high), idle_priority = Idle}}
    catch
        Class:Reason:Stack ->
            Exit = exit_reason(#{stage => init, class => Class, reason => Reason, stack => Stack}, Options),
            speedwell_code:unload(Ready),
            is_pid(Parent) andalso unlink(Parent),
            {stop, Exit}
    end.

handle_call(close, _From, Job) ->
    Ended = ended(Job),
    Failure = done(Ended),
    report_failure(Failure, Ended),
    {stop, normal, Failure, Ended#job{closed = true}};
handle_call(Request, From, Job) ->
    {noreply, call(Request, From, Job)}.

handle_cast(stop, Job) ->
    {stop, normal, Job};
handle_cast(_, Job) ->
    {noreply, Job}.

handle_info(Message, Job) ->
    case heard(Message, Job) of
        #job{} = Next -> {noreply, Next};
        {stop, _, _} = Stop -> Stop
    end.

%% Whatever ends the job, the user's `done` must be executed.
terminate(_, #job{ready = Ready, closed = Closed} = Job) ->
    Closed orelse begin Ended = ended(Job), report_failure(done(Ended), Ended) end,
    speedwell_code:unload(Ready).

%% Omits the compiled module from log entries.
format_status(Status) ->
    maps:map(fun(state, #job{ready = #{source := Source}, workers = Workers}) ->
                     #{source => Source, workers => length(Workers)};
                (_, Value) -> Value
             end, Status).

heard({run, Conductor, Ref, Mode, Epoch, What}, Job) -> begin_run(Conductor, Ref, Mode, Epoch, What, Job);
heard({release, Ref}, Job) -> end_run(Ref, Job);
heard({abandon, Ref, Failure}, Job) -> give_up(Ref, Failure, Job);
heard({ready, Pid}, Job) -> got_ready(Pid, Job);
heard({failed, Pid, Failure}, Job) -> failed(Pid, Failure, Job);
heard({point, Pid, K, Point}, Job) -> notify({point, place(Pid, Job), K, Point}, Job);
heard({last_point, _}, Job) -> last_point(Job);
heard({report, Pid, Report}, Job) -> got_report(Pid, Report, Job);
heard({'DOWN', Monitor, process, Pid, Reason}, Job) -> down(Monitor, Pid, Reason, Job);
heard({'EXIT', Parent, Reason}, #job{options = #{parent := Parent}} = Job) -> {stop, Reason, Job};
heard({'EXIT', Pid, Reason}, Job) -> linked_gone(Pid, Reason, Job);
heard(_, Job) -> Job.

call({workers, Count}, From, Job = #job{waiting = {_, _, _}, later = Later}) ->
    Job#job{later = Later ++ [{Count, From}]};
call({workers, Count}, From, Job) ->
    with_workers(Count, From, Job);
call(workers, From, Job) ->
    answer(From, length(Job#job.workers), Job);
call(go_live, From, Job) ->
    [Pid ! {speedwell, self(), {live, Job#job.flag}} || Pid <- Job#job.workers],
    answer(From, ok, Job#job{live = true});
call(sample, From, Job) ->
    answer(From, counters:get(Job#job.counted, 1), Job);
call(handle, From, Job) ->
    answer(From, {self(), Job#job.counted}, Job);
call({measure, _}, From, Job = #job{measuring = {_, _, _}}) ->
    answer(From, already_started, Job);
call({measure, Count}, From, Job = #job{ready = Ready, shared = Shared}) ->
    Measure = fun() -> exit({measured, speedwell_worker:once(Ready, Shared, Count)}) end,
    {Pid, Monitor} = spawn_monitor(Measure),
    Job#job{measuring = {Pid, Monitor, From}};
call(ready, From, Job) ->
    answer(From, Job#job.ready, Job);
call({priority, Priority}, From, Job = #job{priority = Before}) ->
    answer(From, Before, prioritised(Job#job{priority = Priority})).

answer(From, Answer, Job) ->
    gen_server:reply(From, Answer),
    Job.

%% Workers

with_workers(Count, From, Job = #job{workers = Workers}) when Count >= length(Workers) ->
    New = [start_worker(Job) || _ <- lists:seq(1, Count - length(Workers))],
    all_ready(prioritised(Job#job{workers = Workers ++ New, waiting = {From, New, New}}));
with_workers(Count, From, Job = #job{workers = Workers, options = Options}) ->
    Surplus = length(Workers) - Count,
    {Ending, Staying} = case maps:get(order, Options, newest) of
        oldest -> lists:split(Surplus, Workers);
        newest -> {Kept, Last} = lists:split(Count, Workers), {Last, Kept}
    end,
    kill(Ending),
    answer(From, ok, prioritised(Job#job{workers = Staying})).

start_worker(#job{ready = Ready, shared = Shared, counted = Counted}) ->
    {Pid, _} = speedwell_worker:start(Ready, Shared, Counted),
    Pid.

%% Workers may occupy all schedulers, but the job must remain responsive.
prioritised(Job = #job{workers = []}) ->
    process_flag(priority, Job#job.idle_priority),
    Job;
prioritised(Job) ->
    process_flag(priority, Job#job.priority),
    Job.

got_ready(Pid, Job = #job{waiting = {From, Left, New}}) ->
    all_ready(Job#job{waiting = {From, lists:delete(Pid, Left), New}});
got_ready(_, Job) ->
    Job.

%% New workers of a live job start together, when the last of them is ready.
all_ready(Job = #job{waiting = {From, [], New}, live = Live, flag = Flag, later = Later}) ->
    Live andalso [Pid ! {speedwell, self(), {live, Flag}} || Pid <- New],
    gen_server:reply(From, ok),
    Free = Job#job{waiting = none},
    case Later of
        [] -> Free;
        [{Count, Next} | Rest] -> with_workers(Count, Next, Free#job{later = Rest})
    end;
all_ready(Job) ->
    Job.

%% Kills workers wherever they are in user code, and waits for their exit.
kill(Ending) ->
    [begin unlink(Pid), exit(Pid, kill) end || Pid <- Ending],
    [receive {'DOWN', _, process, Pid, _} -> ok end || Pid <- Ending].

place(Pid, #job{workers = Workers}) ->
    length(lists:takewhile(fun(Other) -> Other =/= Pid end, Workers)).

%% Runs

begin_run(Conductor, Ref, Mode, {Node, Epoch, Left}, What, Job = #job{workers = Workers}) ->
    Flag = atomics:new(1, []),
    Here = case node() of Node -> Epoch; _ -> erlang:monotonic_time() + Left end,
    [Pid ! {speedwell, self(), {Mode, Flag, Here, What}} || Pid <- Workers],
    Run = #{conductor => Conductor, ref => Ref, flag => Flag, points => length(Workers), reports => #{}},
    no_workers(Job#job{run = Run}).

no_workers(Job = #job{workers = []}) ->
    (notify({reports, []}, notify(passed, Job)))#job{run = none};
no_workers(Job) ->
    Job.

notify(What, Job = #job{run = #{conductor := Conductor, ref := Ref}}) ->
    Conductor ! {Ref, self(), What},
    Job;
notify(_, Job) ->
    Job.

last_point(Job = #job{run = Run = #{points := 1}}) -> notify(passed, Job#job{run = Run#{points => 0}});
last_point(Job = #job{run = Run = #{points := N}}) -> Job#job{run = Run#{points => N - 1}};
last_point(Job) -> Job.

end_run(Ref, Job = #job{run = #{ref := Ref, flag := Flag}}) ->
    atomics:put(Flag, 1, 1),
    Job;
end_run(_, Job) ->
    Job.

give_up(Ref, Failure, #job{run = #{ref := Ref}} = Job) -> fail(Failure, Job);
give_up(_, _, Job) -> Job.

got_report(Pid, Report, Job = #job{run = Run = #{reports := Reports}, workers = Workers}) ->
    case Reports#{Pid => Report} of
        All when map_size(All) =:= length(Workers) ->
            (notify({reports, [maps:get(Worker, All) || Worker <- Workers]}, Job))#job{run = none};
        Some ->
            Job#job{run = Run#{reports => Some}}
    end;
got_report(_, _, Job) ->
    Job.

%% Termination

failed(Pid, Failure, Job = #job{workers = Workers}) ->
    case lists:member(Pid, Workers) of
        true -> fail(Failure, Job);
        false -> Job
    end.

%% Ends the job with the failure of user code; a failure of `done` is attached to it.
fail(Failure, Job = #job{options = Options}) ->
    Ended = ended(Job),
    All = case done(Ended) of
        none -> Failure;
        Later when is_map_key(exit_reason, Options) -> report_failure(Later, Ended), Failure;
        Later -> Failure#{then => Later}
    end,
    {stop, exit_reason(All, Options), Ended#job{closed = true}}.

exit_reason(Failure, #{exit_reason := Plain}) -> Plain(Failure);
exit_reason(Failure, _) -> {shutdown, {speedwell_failed, Failure}}.

down(Monitor, Pid, Reason, Job = #job{measuring = {Pid, Monitor, From}}) ->
    Answer = case Reason of
        {measured, Microseconds} -> Microseconds;
        _ -> {error, Reason}
    end,
    answer(From, Answer, Job#job{measuring = none});
down(_, Pid, _, Job = #job{options = #{watched := Pid}}) ->
    {stop, normal, Job};
down(_, Pid, Reason, Job) ->
    %% Killed from outside, or by a process that the user's code is linked with.
    Stage = case Job#job.waiting of {_, Left, _} -> case lists:member(Pid, Left) of true -> init_runner; _ -> run end;
                                    none -> run end,
    failed(Pid, #{stage => Stage, class => exit, reason => Reason, stack => []}, Job).

%% A server started by init has died: nothing is left to measure.
linked_gone(_, normal, Job) -> Job;
linked_gone(Pid, Reason, Job = #job{workers = Workers}) ->
    case lists:member(Pid, Workers) of
        %% The monitor reports the same.
        true -> Job;
        false -> fail(#{stage => run, class => exit, reason => Reason, stack => []}, Job)
    end.

%% Ends all workers.
ended(Job = #job{workers = Workers, measuring = Measuring}) ->
    case Measuring of {Pid, _, _} -> exit(Pid, kill); none -> ok end,
    kill([Worker || Worker <- Workers, is_process_alive(Worker) orelse flushed(Worker)]),
    Job#job{workers = []}.

%% Executes done; returns its failure, if any.
done(#job{ready = #{module := Module, done := Done}, shared = Shared}) ->
    try speedwell_worker:call(Module, Done, Shared) of
        _ -> none
    catch
        Class:Reason:Stack -> #{stage => done, class => Class, reason => Reason, stack => Stack}
    end.

report_failure(none, _) -> ok;
report_failure(Failure, #job{options = Options}) ->
    OnDoneError = maps:get(on_done_error, Options, fun(_) -> ok end),
    OnDoneError(Failure).

%% The exit messages of a killed worker may have arrived already.
flushed(Worker) ->
    receive {'DOWN', _, process, Worker, _} -> false after 0 -> false end.
