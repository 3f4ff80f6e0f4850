%% Jobs for the shell: code that is executed by workers all the time, with a concurrency that can be changed while
%% it runs. The process behind it is `speedwell_job`; here are the names and results of erlperf.
-module(erlperf_job).

-export([start/1, start_link/1, request_stop/1, concurrency/1, set_concurrency/2, measure/2, sample/1, handle/1,
         source/1, set_priority/2]).
-export([start_parked/1]).

%% A job without workers.
-spec start(map()) -> {ok, pid()} | {error, term()}.
start(Code) ->
    begun(Code, #{live => true, order => oldest}).

%% The job ends with the caller, and the caller with the job.
-spec start_link(map()) -> {ok, pid()} | {error, term()}.
start_link(Code) ->
    begun(Code, #{live => true, order => oldest, parent => self()}).

%% A job whose workers wait for runs, which ends with the caller.
-spec start_parked(map()) -> {ok, pid()} | {error, term()}.
start_parked(Code) ->
    begun(Code, #{watched => self()}).

begun(Code, Options) ->
    case speedwell_code:prepare(Code) of
        {ok, Ready} ->
            Given = Options#{exit_reason => fun speedwell_error:exit_reason/1, on_done_error => fun report/1},
            case speedwell_job:start(Ready, Given) of
                {ok, Job} -> erlperf_monitor:register(Job, handle_of(Ready), 0), {ok, Job};
                {error, Failure} -> {error, speedwell_error:exit_reason(Failure)}
            end;
        {error, #{stage := Stage, part := Part, msg := Message}} ->
            {error, {generate, {Stage, Part, Message}}}
    end.

report(#{class := Class, reason := Reason, stack := Stack}) ->
    error_logger:error_msg("Exception while executing 'done': ~p:~tp~n~tp", [Class, Reason, Stack]).

%% Ends the workers, executes done, ends the job. Does not wait for it.
-spec request_stop(pid()) -> ok.
request_stop(Job) ->
    spawn(speedwell_job, close, [Job]),
    ok.

%% Workers that there are.
-spec concurrency(pid()) -> non_neg_integer().
concurrency(Job) ->
    speedwell_job:workers(Job).

%% Starts workers, all of which begin together when the last has executed init_runner, or ends the oldest ones.
-spec set_concurrency(pid(), non_neg_integer()) -> ok.
set_concurrency(Job, Count) ->
    speedwell_job:set_workers(Job, Count).

%% Microseconds that so many iterations take in one more process. One at a time.
-spec measure(pid(), pos_integer()) -> non_neg_integer() | {error, term()}.
measure(Job, Count) ->
    speedwell_job:measure(Job, Count).

%% Iterations so far; undefined when the job has ended.
-spec sample(pid()) -> non_neg_integer() | undefined.
sample(Job) ->
    try speedwell_job:sample(Job) catch exit:_ -> undefined end.

%% The loop that the workers are in.
-spec handle(pid()) -> {module(), arity()}.
handle(Job) ->
    handle_of(speedwell_job:ready(Job)).

handle_of(#{module := Module, extra := Extra, arity := Arity}) ->
    {Module, 2 + length(Extra) + min(1, Arity)}.

%% The text of the module that is executed for a job or for a code map.
-spec source(pid() | map()) -> string().
source(Job) when is_pid(Job) ->
    maps:get(source, speedwell_job:ready(Job));
source(Code) ->
    speedwell_code:source(Code).

%% Returns the priority before. Workers always have the normal one.
-spec set_priority(pid(), erlang:priority_level()) -> erlang:priority_level().
set_priority(Job, Priority) ->
    speedwell_job:set_priority(Job, Priority).
