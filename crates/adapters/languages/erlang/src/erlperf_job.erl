%% Jobs for the shell: code that workers execute continuously, with a concurrency that can be changed at runtime.
%% `speedwell_job` is the process behind it; this module has erlperf's names, results and errors.
-module(erlperf_job).

-export([start/1, start_link/1, request_stop/1, concurrency/1, set_concurrency/2, measure/2, sample/1, handle/1,
         source/1, set_priority/2]).
-export([start_parked/1]).

-export_type([handle/0]).

-opaque handle() :: speedwell_job:handle().

%% Starts a job without workers. It is an ordinary OTP process: gen_server:stop/1 ends it and waits, and a supervisor
%% may start it. Invalid code raises an exception of class `error`: {generate, _} or {compile, Errors, Warnings}.
-spec start(map()) -> {ok, pid()} | {error, term()}.
start(Code) ->
    registered(speedwell_job:start(prepared(Code), permanent())).

%% The job is linked to the caller.
-spec start_link(map()) -> {ok, pid()} | {error, term()}.
start_link(Code) ->
    registered(speedwell_job:start_link(prepared(Code), permanent())).

%% A job whose workers wait for runs, and which ends with the caller. Its failure is reported to the process that
%% waits for it, and not logged.
-spec start_parked(map()) -> {ok, pid()} | {error, term()}.
start_parked(Code) ->
    registered(speedwell_job:start(prepared(Code), #{watched => self(), on_done_error => fun report/1})).

permanent() ->
    #{live => true, order => oldest, on_done_error => fun report/1, exit_reason => fun speedwell_error:exit_reason/1}.

prepared(#{runner := _} = Code) ->
    case speedwell_code:prepare(Code) of
        {ok, Ready} -> Ready;
        {error, Error} -> erlang:error(speedwell_code:reason(Error))
    end.

registered({ok, Job}) ->
    erlperf_monitor:register(Job, handle(Job), 0),
    {ok, Job};
registered({error, {shutdown, {speedwell_failed, Failure}}}) ->
    {error, speedwell_error:exit_reason(Failure)};
registered(Error) ->
    Error.

report(#{class := Class, reason := Reason, stack := Stack}) ->
    error_logger:error_msg("Exception while executing 'done': ~p:~tp~n~tp", [Class, Reason, Stack]).

%% Ends the workers, executes done, ends the job. Does not wait for it.
-spec request_stop(pid()) -> ok.
request_stop(Job) ->
    speedwell_job:request_stop(Job).

%% Current number of workers.
-spec concurrency(pid()) -> non_neg_integer().
concurrency(Job) ->
    speedwell_job:workers(Job).

%% Starts workers, all of which begin together when the last has executed init_runner, or ends the oldest ones.
-spec set_concurrency(pid(), non_neg_integer()) -> ok.
set_concurrency(Job, Count) ->
    speedwell_job:set_workers(Job, Count).

%% Microseconds for this many iterations in an additional process. One call at a time.
-spec measure(pid(), pos_integer()) -> non_neg_integer() | already_started | {error, term()}.
measure(Job, Count) ->
    speedwell_job:measure(Job, Count).

%% Iterations so far; undefined when the job has ended. Reading a handle does not wait for the job.
-spec sample(handle() | pid()) -> non_neg_integer() | undefined.
sample(Job) ->
    try speedwell_job:sample(Job) catch exit:_ -> undefined end.

%% The handle for sample/1, valid on the node of the job.
-spec handle(pid()) -> handle().
handle(Job) ->
    speedwell_job:handle(Job).

%% The source of the module that is executed for a job or for a code map.
-spec source(pid() | map()) -> string().
source(#{} = Code) ->
    speedwell_code:source(Code);
source(Job) ->
    maps:get(source, speedwell_job:ready(Job)).

%% Sets the priority of the job's process while it has workers; without any, it has the priority of its
%% starter. Returns the previous priority. Workers always have priority normal.
-spec set_priority(pid(), erlang:priority_level()) -> erlang:priority_level().
set_priority(Job, Priority) ->
    speedwell_job:set_priority(Job, Priority).
