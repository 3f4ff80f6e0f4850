%% Benchmarks from a shell or a program: run, compare, benchmark, time, start, record. Fills in default options and
%% returns results in the requested format (basic, extended, full). `speedwell_shell` measures.
-module(erlperf).

-export([run/1, run/2, run/3, compare/2, benchmark/3, time/2, start/2, record/4, report_stats/1]).

-export_type([code/0, run_options/0, concurrency_options/0]).

-type callable() :: string() | {module(), atom(), list()} | [{module(), atom(), list()}] | fun().
-type code() :: callable() | #{runner := callable(), init => callable(), init_runner => callable(),
                               done => callable(), label => string()}.
%% sample_duration: milliseconds, or {timed, Iterations}; undefined means one sample of `samples` iterations.
%% warmup: number of discarded samples. cv: measure until stddev / average is at most this.
-type run_options() :: #{concurrency => pos_integer(), sample_duration => pos_integer() | undefined | {timed, pos_integer()},
                         warmup => non_neg_integer(), samples => pos_integer(), cv => number() | undefined,
                         priority => erlang:priority_level(), report => basic | extended | full, isolation => map()}.
-type concurrency_options() :: #{min => pos_integer(), step => pos_integer(), max => pos_integer(), threshold => pos_integer()}.

%% Average iterations per second.
-spec run(code()) -> non_neg_integer().
run(Code) ->
    run(Code, #{}).

-spec run(code(), run_options()) -> term().
run(Code, Options) ->
    [Result] = benchmark([code(Code)], Options, undefined),
    Result.

%% A function with arguments; or code, options, and the search for the best concurrency.
-spec run(module(), atom(), list()) -> term();
         (code(), run_options(), concurrency_options()) -> term().
run(Module, Function, Arguments) when is_atom(Module), is_atom(Function), is_list(Arguments) ->
    run({Module, Function, Arguments});
run(Code, Options, Concurrency) ->
    [Result] = benchmark([code(Code)], Options, Concurrency),
    Result.

%% Results in the order of the codes, which are measured alternately.
-spec compare([code()], run_options()) -> [term()].
compare(Codes, Options) ->
    benchmark([code(Code) || Code <- Codes], Options, undefined).

%% Milliseconds for this many iterations.
-spec time(code(), pos_integer()) -> non_neg_integer().
time(Code, Count) ->
    run(Code, #{samples => 1, sample_duration => {timed, Count}}).

%% Several codes, or one with a search for its best concurrency.
-spec benchmark([map()], run_options(), undefined | concurrency_options()) -> [term()] | {error, not_supported}.
benchmark(Codes, #{isolation := Isolation} = Options, Concurrency) ->
    Plain = maps:remove(isolation, Options),
    Results = [speedwell_peers:isolated(?MODULE, benchmark, [[Code], Plain, Concurrency]) || Code <- Codes],
    [case Result of
         #{run_options := Own} -> Result#{run_options => Own#{isolation => Isolation}};
         _ -> Result
     end || Result <- lists:append(Results)];
benchmark(Codes, Options, undefined) ->
    Filled = filled(Options),
    Figures = speedwell_shell:measure([code(Code) || Code <- Codes], Filled),
    [shaped(Code, Filled, Figure) || {Code, Figure} <- lists:zip(Codes, Figures)];
benchmark([Code], Options, Concurrency) ->
    Filled = filled(Options),
    Limits = maps:merge(#{min => 1, step => 1, threshold => 3,
                          max => erlang:system_info(process_limit) - 1000}, Concurrency),
    {Best, Passes} = speedwell_shell:squeeze(code(Code), Filled, Limits),
    [squeezed(Code, Filled, Limits, Best, Passes)];
benchmark([_ | _], _, _) ->
    {error, not_supported}.

%% Starts a permanent job in the running application.
-spec start(code(), pos_integer()) -> pid().
start(Code, Concurrency) ->
    {ok, Job} = supervisor:start_child(erlperf_job_sup, [code(Code)]),
    ok = erlperf_job:set_concurrency(Job, Concurrency),
    Job.

%% Records the calls of a function by all processes for this many milliseconds, in call order: the list can be used
%% as a runner. There is one tracer per node, and tracing slows the node down.
-spec record(module(), atom(), arity() | '_', pos_integer()) -> [{module(), atom(), list()}].
record(Module, Function, Arity, Ms) ->
    Pattern = {Module, Function, Arity},
    {Tracer, Monitor} = spawn_opt(fun() -> recording([]) end, [link, monitor, {message_queue_data, off_heap}]),
    erlang:trace_pattern(Pattern, true, [global]),
    erlang:trace(all, true, [call, {tracer, Tracer}]),
    timer:sleep(Ms),
    erlang:trace(all, false, [call]),
    erlang:trace_pattern(Pattern, false, [global]),
    Delivered = erlang:trace_delivered(all),
    receive {trace_delivered, all, Delivered} -> ok end,
    unlink(Tracer),
    Tracer ! stop,
    receive {'DOWN', Monitor, process, Tracer, {recorded, Calls}} -> Calls end.

%% All trace messages arrive before `stop`.
recording(Calls) ->
    receive
        {trace, _, call, Mfa} -> recording([Mfa | Calls]);
        stop -> exit({recorded, lists:reverse(Calls)})
    end.

%% Average, deviation and order statistics of samples.
-spec report_stats([number(), ...]) -> map().
report_stats(Samples) ->
    speedwell_statistics:of_samples(Samples).

code(#{runner := _} = Code) -> Code;
code(Callable) -> #{runner => Callable}.

filled(Options) ->
    Filled = maps:merge(#{concurrency => 1, sample_duration => 1000, warmup => 0, samples => 3, cv => undefined,
                          priority => high, report => basic}, Options),
    case Filled of
        #{sample_duration := undefined, samples := Loop} -> Filled#{sample_duration => {timed, Loop}, samples => 1};
        _ -> Filled
    end.

%% Formats

shaped(_, #{report := basic, sample_duration := {timed, _}}, #{counts := Counts}) ->
    round(average(Counts) / 1000);
shaped(_, #{report := basic}, #{counts := Counts}) ->
    round(average(Counts));
shaped(_, #{report := extended, sample_duration := {timed, _}}, #{counts := Counts}) ->
    [round(Count / 1000) || Count <- Counts];
shaped(_, #{report := extended}, #{counts := Counts}) ->
    [round(Count) || Count <- Counts];
shaped(Code, #{report := full, sample_duration := {timed, _}} = Options, Figures) ->
    (full(Code, Options, timed_result(Figures)))#{mode => timed};
shaped(Code, #{report := full} = Options, Figures) ->
    (full(Code, Options, result(Figures)))#{mode => continuous, sleep => sleep}.

full(Code, Options, Result) ->
    #{code => code(Code), run_options => Options, result => Result, system => speedwell_machine:info()}.

squeezed(_, #{report := basic}, _, Best, _) ->
    qps(Best);
squeezed(_, #{report := extended}, _, Best, Passes) ->
    {qps(Best), [qps(Pass) || Pass <- Passes]};
squeezed(Code, #{report := full} = Options, Limits, #{workers := Workers} = Best, Passes) ->
    (full(Code, Options#{concurrency => Workers}, result(Best)))#{
        mode => concurrency, sleep => sleep, concurrency_options => Limits,
        history => [{W, result(Pass)} || #{workers := W} = Pass <- Passes]}.

qps(#{counts := Counts, workers := Workers}) ->
    {round(average(Counts)), Workers}.

average(Counts) ->
    lists:sum(Counts) / length(Counts).

%% `samples` are the counters as if read at each end of a window.
result(#{counts := Counts} = Figures) ->
    Counters = lists:foldl(fun(Count, [Last | _] = Before) -> [Last + Count | Before] end, [0], Counts),
    Exact = with_times(Figures, speedwell_statistics:of_samples(Counts)),
    #{max := Max, min := Min} = Rounded = rounded(Exact),
    Rounded#{samples => [round(Counter) || Counter <- lists:reverse(Counters)], best => Max, worst => Min}.

timed_result(#{counts := Counts} = Figures) ->
    #{max := Max, min := Min} = Result = with_times(Figures, speedwell_statistics:of_samples(Counts)),
    Result#{samples => Counts, best => Min, worst => Max}.

rounded(Result) ->
    maps:map(fun(Key, Value) when Key =:= min; Key =:= max; Key =:= median; Key =:= p99 -> round(Value);
                (_, Value) -> Value
             end, Result).

with_times(#{time_us := Time, iteration_ns := Ns}, Result) ->
    Result#{time => Time, iteration_time_ns => Ns,
            iteration_time => case Ns of infinity -> infinity; _ -> round(Ns) end}.
