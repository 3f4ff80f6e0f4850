%% A job: one piece of code and its workers. The job's process executes init, so servers that init starts
%% and links live as long as the job; it starts and ends workers, hands runs to them, and executes done.
%% It knows nothing of the protocol or of figures. A run is conducted by `speedwell_run`. Start at start/2.
%%
%% The process is a plain loop that understands calls of gen_server. So it can end with the very reason
%% that user code failed with, without a crash report on the standard output, which is not ours.
-module(speedwell_job).

-export([start/2, set_workers/2, workers/1, go_live/1, sample/1, measure/2, ready/1, set_priority/2,
         run/3, release/2, abandon/3, close/1]).
-export([init/3]).

%% parent: the job ends with it. node: where. order: which workers end first when there are too many.
%% watched: the job ends when this process does.
%% on_done_error: called with the error of a failing `done`. exit_reason: what the job exits with when it fails.
-type options() :: #{parent => pid(), node => node(), order => newest | oldest, live => boolean(),
                     watched => pid(),
                     on_done_error => fun((map()) -> term()),
                     exit_reason => fun((map()) -> term()), priority => high | normal}.
%% `then` is how `done` failed afterwards.
-type failure() :: #{stage := atom(), class := atom(), reason := term(), stack := list(), then => failure()}.
-export_type([options/0, failure/0]).

-record(job, {
    ready :: speedwell_code:ready(),
    options :: options(),
    shared :: term(),
    %% Oldest first.
    workers = [] :: [{pid(), counters:counters_ref()}],
    %% Iterations of workers that are gone.
    retired = 0 :: non_neg_integer(),
    live = false :: boolean(),
    flag :: atomics:atomics_ref(),
    %% Who waits for new workers, and which of them have still to get ready.
    waiting = none :: none | {gen_server:from(), [pid()], [pid()]},
    run = none :: none | map(),
    measuring = none :: none | {pid(), reference(), gen_server:from()}
}).

%% Starts a job without workers. Fails if init does.
-spec start(speedwell_code:ready(), options()) -> {ok, pid()} | {error, failure()}.
start(Ready, Options) ->
    Ref = make_ref(),
    Node = maps:get(node, Options, node()),
    {Pid, Monitor} = spawn_opt(Node, ?MODULE, init, [{self(), Ref}, Ready, Options], [monitor]),
    receive
        {Ref, Answer} ->
            erlang:demonitor(Monitor, [flush]),
            case Answer of started -> {ok, Pid}; _ -> Answer end;
        {'DOWN', Monitor, process, Pid, Reason} ->
            {error, #{stage => init, class => exit, reason => Reason, stack => []}}
    end.

%% Starts or ends workers until there are so many, and waits for init_runner of all new ones.
-spec set_workers(pid(), non_neg_integer()) -> ok.
set_workers(Job, Count) -> ask(Job, {workers, Count}).

-spec workers(pid()) -> non_neg_integer().
workers(Job) -> ask(Job, workers).

%% From now on workers perform iterations all the time.
-spec go_live(pid()) -> ok.
go_live(Job) -> ask(Job, go_live).

%% Iterations so far.
-spec sample(pid()) -> non_neg_integer().
sample(Job) -> ask(Job, sample).

%% Microseconds for so many iterations of one more worker.
-spec measure(pid(), pos_integer()) -> non_neg_integer() | {error, already_started | term()}.
measure(Job, Count) -> ask(Job, {measure, Count}).

-spec ready(pid()) -> speedwell_code:ready().
ready(Job) -> ask(Job, ready).

%% Returns the one before.
-spec set_priority(pid(), erlang:priority_level()) -> erlang:priority_level().
set_priority(Job, Priority) -> ask(Job, {priority, Priority}).

%% Hands a run to all workers. The caller gets {Ref, Job, What}: `passed` when every worker has its last
%% point, {point, W, K, {TimeNs, Count}}, and {reports, [Report]} in the end.
-spec run(pid(), reference(), {continuous | timed, Epoch :: integer(), term()}) -> ok.
run(Job, Ref, {Mode, Epoch, What}) ->
    %% The clock of another node began elsewhere, so the time that is left goes along.
    Job ! {run, self(), Ref, Mode, {node(), Epoch, Epoch - erlang:monotonic_time()}, What},
    ok.

%% Ends the run after the batches under way.
-spec release(pid(), reference()) -> ok.
release(Job, Ref) ->
    Job ! {release, Ref},
    ok.

%% Gives up a run whose workers do not come to the end of an iteration: the job fails.
-spec abandon(pid(), reference(), failure()) -> ok.
abandon(Job, Ref, Failure) ->
    Job ! {abandon, Ref, Failure},
    ok.

%% Ends the workers, executes done, ends the job, and waits until it is gone. Gives the failure of `done`.
-spec close(pid()) -> none | failure().
close(Job) ->
    Monitor = erlang:monitor(process, Job),
    Failure = try ask(Job, close) catch exit:_ -> none end,
    receive {'DOWN', Monitor, process, Job, _} -> Failure end.

ask(Job, Request) ->
    gen_server:call(Job, Request, infinity).

%% The job's process

-spec init({pid(), reference()}, speedwell_code:ready(), options()) -> no_return().
init({Starter, Ref}, Ready = #{module := Module, init := Hook}, Options) ->
    process_flag(trap_exit, true),
    Parent = maps:get(parent, Options, none),
    is_pid(Parent) andalso link(Parent),
    [erlang:monitor(process, Watched) || Watched <- [maps:get(watched, Options, none)], is_pid(Watched)],
    speedwell_code:load(Ready),
    try speedwell_worker:call(Module, Hook, undefined) of
        Shared ->
            process_flag(priority, maps:get(priority, Options, high)),
            Starter ! {Ref, started},
            loop(#job{ready = Ready, options = Options, shared = Shared, flag = atomics:new(1, []),
                      live = maps:get(live, Options, false)})
    catch
        Class:Reason:Stack ->
            %% Told before the module goes: afterwards the stack has no lines of it any more.
            Starter ! {Ref, {error, #{stage => init, class => Class, reason => Reason, stack => Stack}}},
            speedwell_code:unload(Ready),
            is_pid(Parent) andalso unlink(Parent),
            exit(normal)
    end.

loop(Job = #job{options = Options}) ->
    receive
        {'$gen_call', From, Request} -> loop(call(Request, From, Job));
        {run, Conductor, Ref, Mode, Epoch, What} -> loop(begin_run(Conductor, Ref, Mode, Epoch, What, Job));
        {release, Ref} -> loop(end_run(Ref, Job));
        {abandon, Ref, Failure} -> loop(give_up(Ref, Failure, Job));
        {ready, Pid} -> loop(got_ready(Pid, Job));
        {failed, Pid, Failure} -> loop(failed(Pid, Failure, Job));
        {point, Pid, K, Point} -> loop(told({point, place(Pid, Job), K, Point}, Job));
        {last_point, _} -> loop(last_point(Job));
        {report, Pid, Report} -> loop(got_report(Pid, Report, Job));
        {'DOWN', Monitor, process, Pid, Reason} -> loop(down(Monitor, Pid, Reason, Job));
        {'EXIT', Pid, Reason} ->
            case maps:get(parent, Options, none) of
                Pid -> stop(Reason, Job);
                _ -> loop(linked_gone(Pid, Reason, Job))
            end;
        _ -> loop(Job)
    end.

call({workers, Count}, From, Job = #job{workers = Workers}) when Count >= length(Workers) ->
    New = [start_worker(Job) || _ <- lists:seq(1, Count - length(Workers))],
    Pids = [Pid || {Pid, _} <- New],
    all_ready(Job#job{workers = Workers ++ New, waiting = {From, Pids, Pids}});
call({workers, Count}, From, Job = #job{workers = Workers, options = Options}) ->
    Surplus = length(Workers) - Count,
    {Ending, Staying} = case maps:get(order, Options, newest) of
        oldest -> lists:split(Surplus, Workers);
        newest -> {Kept, Last} = lists:split(Count, Workers), {Last, Kept}
    end,
    gen_server:reply(From, ok),
    (kill(Ending, Job))#job{workers = Staying};
call(workers, From, Job) ->
    answer(From, length(Job#job.workers), Job);
call(go_live, From, Job) ->
    [Pid ! {speedwell, self(), {live, Job#job.flag}} || {Pid, _} <- Job#job.workers],
    answer(From, ok, Job#job{live = true});
call(sample, From, Job = #job{retired = Retired, workers = Workers}) ->
    answer(From, Retired + sum(Workers), Job);
call({measure, _}, From, Job = #job{measuring = {_, _, _}}) ->
    answer(From, {error, already_started}, Job);
call({measure, Count}, From, Job = #job{ready = Ready, shared = Shared}) ->
    Measure = fun() -> exit({measured, speedwell_worker:once(Ready, Shared, Count)}) end,
    {Pid, Monitor} = spawn_monitor(Measure),
    Job#job{measuring = {Pid, Monitor, From}};
call(ready, From, Job) ->
    answer(From, Job#job.ready, Job);
call({priority, Priority}, From, Job) ->
    answer(From, process_flag(priority, Priority), Job);
call(close, From, Job) ->
    Ended = ended(Job),
    Failure = done(Ended),
    tell(Failure, Ended),
    gen_server:reply(From, Failure),
    finish(normal, Ended).

answer(From, Answer, Job) ->
    gen_server:reply(From, Answer),
    Job.

sum(Workers) ->
    lists:sum([counters:get(Published, 1) || {_, Published} <- Workers]).

%% Workers

start_worker(#job{ready = Ready, shared = Shared}) ->
    Published = counters:new(1, []),
    {Pid, _} = speedwell_worker:start(Ready, Shared, Published),
    {Pid, Published}.

got_ready(Pid, Job = #job{waiting = {From, Left, New}}) ->
    all_ready(Job#job{waiting = {From, lists:delete(Pid, Left), New}});
got_ready(_, Job) ->
    Job.

%% New workers of a live job start together, when the last of them is ready.
all_ready(Job = #job{waiting = {From, [], New}, live = Live, flag = Flag}) ->
    Live andalso [Pid ! {speedwell, self(), {live, Flag}} || Pid <- New],
    gen_server:reply(From, ok),
    Job#job{waiting = none};
all_ready(Job) ->
    Job.

%% Ends workers at once, wherever they are in user code, and waits until they are gone.
kill(Ending, Job = #job{retired = Retired}) ->
    [begin
         unlink(Pid),
         exit(Pid, kill),
         receive {'DOWN', _, process, Pid, _} -> ok end
     end || {Pid, _} <- Ending],
    Job#job{retired = Retired + sum(Ending)}.

place(Pid, #job{workers = Workers}) ->
    length(lists:takewhile(fun({Other, _}) -> Other =/= Pid end, Workers)).

%% Runs

begin_run(Conductor, Ref, Mode, {Node, Epoch, Left}, What, Job = #job{workers = Workers}) ->
    Flag = atomics:new(1, []),
    Here = case node() of Node -> Epoch; _ -> erlang:monotonic_time() + Left end,
    [Pid ! {speedwell, self(), {Mode, Flag, Here, What}} || {Pid, _} <- Workers],
    Run = #{conductor => Conductor, ref => Ref, flag => Flag, points => length(Workers), reports => #{}},
    no_workers(Job#job{run = Run}).

no_workers(Job = #job{workers = []}) ->
    (told({reports, []}, told(passed, Job)))#job{run = none};
no_workers(Job) ->
    Job.

told(What, Job = #job{run = #{conductor := Conductor, ref := Ref}}) ->
    Conductor ! {Ref, self(), What},
    Job;
told(_, Job) ->
    Job.

last_point(Job = #job{run = Run = #{points := 1}}) -> told(passed, Job#job{run = Run#{points => 0}});
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
            (told({reports, [maps:get(Worker, All) || {Worker, _} <- Workers]}, Job))#job{run = none};
        Some ->
            Job#job{run = Run#{reports => Some}}
    end;
got_report(_, _, Job) ->
    Job.

%% Endings

-spec failed(pid(), failure(), #job{}) -> no_return() | #job{}.
failed(Pid, Failure, Job = #job{workers = Workers}) ->
    case lists:keymember(Pid, 1, Workers) of
        true -> fail(Failure, Job);
        false -> Job
    end.

fail(Failure, Job) ->
    stop({speedwell_failed, Failure}, Job).

down(Monitor, Pid, Reason, Job = #job{measuring = {Pid, Monitor, From}}) ->
    Answer = case Reason of
        {measured, Microseconds} -> Microseconds;
        _ -> {error, Reason}
    end,
    answer(From, Answer, Job#job{measuring = none});
down(_, Pid, _, Job = #job{options = #{watched := Pid}}) ->
    stop(normal, Job);
down(_, Pid, Reason, Job) ->
    %% Killed from outside, or by a process that the user's code is linked with.
    Stage = case Job#job.waiting of {_, Left, _} -> case lists:member(Pid, Left) of true -> init_runner; _ -> run end;
                                    none -> run end,
    failed(Pid, #{stage => Stage, class => exit, reason => Reason, stack => []}, Job).

%% A server that init started has died: there is nothing left to measure.
linked_gone(_, normal, Job) -> Job;
linked_gone(Pid, Reason, Job = #job{workers = Workers}) ->
    case lists:keymember(Pid, 1, Workers) of
        %% The same is told by the monitor.
        true -> Job;
        false -> fail(#{stage => run, class => exit, reason => Reason, stack => []}, Job)
    end.

-spec stop(term(), #job{}) -> no_return().
stop(Reason, Job) ->
    Ended = ended(Job),
    case {Reason, done(Ended)} of
        %% What came first is told first.
        {{speedwell_failed, Failure}, #{} = Later} -> finish({speedwell_failed, Failure#{then => Later}}, Ended);
        {_, Later} -> tell(Later, Ended), finish(Reason, Ended)
    end.

%% Ends all workers.
ended(Job = #job{workers = Workers, measuring = Measuring}) ->
    case Measuring of {Pid, _, _} -> exit(Pid, kill); none -> ok end,
    (kill([W || W = {Worker, _} <- Workers, is_process_alive(Worker) orelse flushed(Worker)], Job))#job{workers = []}.

%% Executes done: how it failed, if it did.
done(#job{ready = #{module := Module, done := Done}, shared = Shared}) ->
    try speedwell_worker:call(Module, Done, Shared) of
        _ -> none
    catch
        Class:Reason:Stack -> #{stage => done, class => Class, reason => Reason, stack => Stack}
    end.

tell(none, _) -> ok;
tell(Failure, #job{options = Options}) ->
    Tell = maps:get(on_done_error, Options, fun(_) -> ok end),
    Tell(Failure).

%% Of a worker that is gone already the news may have arrived.
flushed(Worker) ->
    receive {'DOWN', _, process, Worker, _} -> false after 0 -> false end.

-spec finish(term(), #job{}) -> no_return().
finish(Reason, #job{ready = Ready, options = Options}) ->
    speedwell_code:unload(Ready),
    case {Reason, Options} of
        {{speedwell_failed, Failure}, #{exit_reason := Plain}} -> exit(Plain(Failure));
        _ -> exit(Reason)
    end.
