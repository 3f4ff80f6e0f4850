%% A run for the protocol: which jobs, which lengths, and its events. `speedwell_run` measures.
-module(speedwell_report).

-export([run/3]).

-type sender() :: fun((atom(), [{atom(), term()}], [{atom(), list()}]) -> ok).

%% Executes `run`. Jobs that failed are removed.
-spec run(#{binary() => binary()}, #{binary() => pid()}, sender()) -> #{binary() => pid()}.
run(Fields, Jobs, Send) ->
    Names = binary:split(maps:get(<<"jobs">>, Fields, <<>>), <<",">>, [global, trim_all]),
    {Known, Unknown} = lists:partition(fun(Name) -> is_map_key(Name, Jobs) end, Names),
    [refuse(Name, Send) || Name <- Unknown],
    Known =:= [] andalso throw({refused, "there is no job to run"}),
    Pids = [maps:get(Name, Jobs) || Name <- Known],
    Workers = lists:sum([with_workers(Pid) || Pid <- Pids]),
    Clocks = clocks(),
    {Outcomes, End} = case maps:get(<<"mode">>, Fields, <<>>) of
        <<"continuous">> -> continuous(Known, Pids, Workers, Fields, Send);
        Mode when Mode =:= <<"timed">>; Mode =:= <<"series">> -> timed(Known, Pids, Workers, Fields, Send);
        Mode -> throw({refused, ["unsupported mode '", Mode, "': expected 'continuous', 'timed' or 'series'"]})
    end,
    compare(Clocks, clocks(), Send),
    Failed = [Name || {Name, {_, {failed, Reason}}} <- lists:zip(Known, Outcomes), failed(Name, Reason, Send)],
    #{elapsed_ns := Elapsed, max_late_ns := Late} = End,
    Send('end', [{jobs, {list, Names}}, {elapsed_ns, Elapsed}, {max_late_ns, Late}], []),
    maps:without(Failed, Jobs).

refuse(Name, Send) ->
    Send(error, [{job, Name}, {stage, protocol}, {class, protocol}, {msg, ["unknown job '", Name, "'"]}, {fatal, 0}], []).

%% A job has one worker by default.
with_workers(Job) ->
    case speedwell_job:workers(Job) of
        0 -> ok = speedwell_job:set_workers(Job, 1), 1;
        Count -> Count
    end.

failed(Name, Reason, Send) ->
    [Send(error, [{job, Name} | speedwell_error:of_failure(Each)], [])
     || Each <- speedwell_error:all(speedwell_job:failure(Reason))],
    true.

continuous(Names, Pids, Workers, Fields, Send) ->
    %% The schedulers' processor time can be attributed to a worker only if there is one.
    Clock = case Fields of
        #{<<"cpu">> := <<"1">>} when Workers =:= 1 -> speedwell_clock:schedulers();
        _ -> []
    end,
    Plan = (plan(#{interval_ns => <<"interval_ns">>}, Fields))#{clock => Clock},
    Streamed = case Fields of
        #{<<"stream">> := <<"1">>} -> Plan#{observer => observer(Names, Pids, Plan, Send)};
        _ -> Plan
    end,
    {Outcomes, End} = speedwell_run:continuous(Pids, Streamed, Workers),
    [worker(Name, W, Report, Send) || {Name, {_, {ok, Reports}}} <- lists:zip(Names, Outcomes),
                                      {W, Report} <- numbered(Reports)],
    {Outcomes, End}.

worker(Name, W, #{points := Points, batch := Batch, batches := Table, cpu_ns := Cpu}, Send) ->
    {Times, Counts} = lists:unzip(Points),
    {Quantiles, Batches} = speedwell_histogram:quantiles(Table),
    Send(worker, [{job, Name}, {w, W}, {epoch_ns, 0}, {batch, Batch}, {q_ps, {list, Quantiles}}, {batches, Batches}
                  | [{cpu_ns, Cpu} || is_integer(Cpu)]],
         [{t_ns, Times}, {count, Counts}]).

numbered(List) ->
    lists:zip(lists:seq(0, length(List) - 1), List).

timed(Names, Pids, Workers, Fields, Send) ->
    Plan = #{loop := Loop} = plan(#{loop => <<"loop">>}, Fields),
    {Outcomes, End} = speedwell_run:timed(Pids, Plan, Workers),
    [timed_job(Name, Loop, Samples, Send) || {Name, {_, {ok, Samples}}} <- lists:zip(Names, Outcomes)],
    {Outcomes, End}.

%% A sample begins with its first worker and ends with its last.
timed_job(Name, Loop, Samples, Send) ->
    Times = [erlang:convert_time_unit(lists:max([E || #{stop := E} <- Reports])
                                      - lists:min([S || #{start := S} <- Reports]), native, nanosecond)
             || Reports <- Samples],
    Tables = [Table || Reports <- Samples, #{batches := Table} <- Reports],
    {Quantiles, Batches} = speedwell_histogram:quantiles(speedwell_histogram:merge(Tables)),
    Workers = case Samples of [Reports | _] -> length(Reports); [] -> 0 end,
    Send(timed, [{job, Name}, {loop, Loop}, {workers, Workers}, {q_ps, {list, Quantiles}}, {batches, Batches}],
         [{ns, Times}]).

plan(More, Fields) ->
    Keys = More#{samples => <<"samples">>, warmup_ns => <<"warmup_ns">>},
    Given = Fields#{<<"warmup_ns">> => maps:get(<<"warmup_ns">>, Fields, <<"0">>)},
    Plan = maps:map(fun(_, Key) ->
        try binary_to_integer(maps:get(Key, Given))
        catch error:_ -> throw({refused, ["'", Key, "' is missing or not a number"]})
        end
    end, Keys),
    [throw({refused, ["'", atom_to_list(Key), "' must be at least 1"]})
     || {Key, Value} <- maps:to_list(maps:remove(warmup_ns, Plan)), Value < 1],
    Plan.

%% Reports point K of a job when all its workers have passed it.
observer(Names, Pids, #{interval_ns := Interval, warmup_ns := Warmup}, Send) ->
    Jobs = maps:from_list(lists:zip(Pids, Names)),
    Sizes = maps:map(fun(Pid, _) -> speedwell_job:workers(Pid) end, Jobs),
    fun(Pid, {point, _, K, {Time, Count}}) ->
        Known = case get({Pid, K}) of undefined -> []; List -> List end,
        Now = [{Time, Count} | Known],
        case maps:get(Pid, Sizes) of
            Size when Size =:= length(Now) ->
                erase({Pid, K}),
                {Times, Counts} = lists:unzip(Now),
                Last = lists:max(Times),
                Late = max(0, Last - (Warmup + K * Interval)),
                Send(sample, [{job, maps:get(Pid, Jobs)}, {k, K}, {t_ns, Last}, {count, lists:sum(Counts)},
                              {workers, Size}, {late_ns, Late}], []);
            _ ->
                put({Pid, K}, Now)
        end
    end.

%% Reads the measurement's clock, which may be slewed by 1 %, and the operating system's own. The latter is
%% read before and after the former, so the maximum distance between the two readings is known: the last
%% number. The closest of several pairs is used, because this process may be preempted between the two.
clocks() ->
    element(2, lists:min([clocks_once() || _ <- lists:seq(1, 5)])).

clocks_once() ->
    Before = os:perf_counter(nanosecond),
    Erlang = erlang:convert_time_unit(erlang:monotonic_time(), native, nanosecond),
    Apart = os:perf_counter(nanosecond) - Before,
    {Apart, {Erlang, Before, Apart}}.

compare({From, OsFrom, FromApart}, {To, OsTo, ToApart}, Send) when To - From > 10000000 ->
    Lasted = max(1, OsTo - OsFrom),
    Ahead = To - From - Lasted,
    %% Ignore what the reading error alone explains.
    abs(Ahead) - FromApart - ToApart > Lasted div 1000 andalso
        Send(log, [{level, warning},
                   {text, io_lib:format("Erlang's clock ran ~.2f % ~s than the system's during this run; "
                                        "all times are off by as much.",
                                        [abs(Ahead) / Lasted * 100, case Ahead > 0 of true -> "faster"; false -> "slower" end])}], []);
compare(_, _, _) ->
    ok.
