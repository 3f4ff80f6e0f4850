%% Jobs for the shell: code that is executed by workers all the time, with a concurrency that can be changed while
%% it runs. The process behind it is `speedwell_job`; here are the names, results and errors of erlperf.
-module(erlperf_job).

-export([start/1, start_link/1, request_stop/1, concurrency/1, set_concurrency/2, measure/2, sample/1, handle/1,
         source/1, set_priority/2]).
-export([start_parked/1]).

-export_type([handle/0]).

-opaque handle() :: speedwell_job:handle().

%% A job without workers, an ordinary OTP process: gen_server:stop/1 ends it and waits, and a supervisor may start it.
%% Code that makes no sense is an exception of class `error`: {generate, _} or {compile, Errors, Warnings}.
-spec start(map()) -> {ok, pid()} | {error, term()}.
start(Code) ->
    registered(speedwell_job:start(prepared(Code), permanent())).

%% The job ends with the caller, and the caller with the job.
-spec start_link(map()) -> {ok, pid()} | {error, term()}.
start_link(Code) ->
    registered(speedwell_job:start_link(prepared(Code), permanent())).

%% A job whose workers wait for runs, which ends with the caller. What it fails with is told to whoever waits for it,
%% and is not logged.
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

%% Workers that there are.
-spec concurrency(pid()) -> non_neg_integer().
concurrency(Job) ->
    speedwell_job:workers(Job).

%% Starts workers, all of which begin together when the last has executed init_runner, or ends the oldest ones.
-spec set_concurrency(pid(), non_neg_integer()) -> ok.
set_concurrency(Job, Count) ->
    speedwell_job:set_workers(Job, Count).

%% Microseconds that so many iterations take in one more process. One at a time.
-spec measure(pid(), pos_integer()) -> non_neg_integer() | already_started | {error, term()}.
measure(Job, Count) ->
    speedwell_job:measure(Job, Count).

%% Iterations so far; undefined when the job has ended. Of a handle it is read at once, whatever the job does.
-spec sample(handle() | pid()) -> non_neg_integer() | undefined.
sample(Job) ->
    try speedwell_job:sample(Job) catch exit:_ -> undefined end.

%% What sample/1 reads from, on the node of the job.
-spec handle(pid()) -> handle().
handle(Job) ->
    speedwell_job:handle(Job).

%% The text of the module that is executed for a job or for a code map.
-spec source(pid() | map()) -> string().
source(#{} = Code) ->
    speedwell_code:source(Code);
source(Job) ->
    maps:get(source, speedwell_job:ready(Job)).

%% The priority of the job's process while it has workers; without any it is that of its starter. Returns the
%% priority before. Workers always have the normal one.
-spec set_priority(pid(), erlang:priority_level()) -> erlang:priority_level().
set_priority(Job, Priority) ->
    speedwell_job:set_priority(Job, Priority).
