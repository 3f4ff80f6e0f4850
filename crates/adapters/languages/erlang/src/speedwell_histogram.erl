%% Times per iteration of batches, in picoseconds, with logarithmic buckets: one addition per batch,
%% outside of the worker's heap. A bucket is 1 % wide, so its middle is wrong by at most 0.5 %.
-module(speedwell_histogram).

-export([new/0, add/2, taken/1, merge/1, quantiles/1]).

-export_type([histogram/0, table/0]).

-opaque histogram() :: counters:counters_ref().
%% Counts of batches per bucket, and the smallest time.
-type table() :: {Minimum :: non_neg_integer() | infinity, #{pos_integer() => pos_integer()}}.

-define(RATIO, 1.01).
%% ln(10^18 ps) / ln(1.01): a batch of one iteration may take eleven days.
-define(BUCKETS, 4200).
-define(MINIMUM, 1).

-spec new() -> histogram().
new() ->
    counters:new(?BUCKETS, []).

-spec add(histogram(), Picoseconds :: non_neg_integer()) -> ok.
add(Histogram, Ps) ->
    Known = counters:get(Histogram, ?MINIMUM),
    %% 0 means "nothing yet", so times are stored plus one.
    (Known =:= 0 orelse Ps + 1 < Known) andalso counters:put(Histogram, ?MINIMUM, Ps + 1),
    counters:add(Histogram, bucket(Ps), 1).

bucket(Ps) when Ps < 1 -> 2;
bucket(Ps) -> min(?BUCKETS, 2 + trunc(math:log(Ps) / math:log(?RATIO))).

%% Returns the counts since the last call and resets them.
-spec taken(histogram()) -> table().
taken(Histogram) ->
    Table = {case counters:get(Histogram, ?MINIMUM) of 0 -> infinity; Least -> Least - 1 end,
             maps:from_list([{At, Count} || At <- lists:seq(2, ?BUCKETS),
                                            Count <- [counters:get(Histogram, At)], Count > 0])},
    [counters:put(Histogram, At, 0) || At <- [?MINIMUM | maps:keys(element(2, Table))]],
    Table.

-spec merge([table()]) -> table().
merge(Tables) ->
    lists:foldl(fun({Least, Table}, {LeastOfAll, All}) ->
        Sum = maps:fold(fun(At, Count, Into) -> maps:update_with(At, fun(N) -> N + Count end, Count, Into) end,
                        All, Table),
        %% An atom is greater than every number.
        {min(Least, LeastOfAll), Sum}
    end, {infinity, #{}}, Tables).

%% Minimum, 5 %, 25 % and 50 % (nearest rank) of the batches, and their number.
-spec quantiles(table()) -> {[non_neg_integer()], Batches :: non_neg_integer()}.
quantiles({infinity, _}) ->
    {[], 0};
quantiles({Least, Table}) ->
    Sorted = lists:sort(maps:to_list(Table)),
    Batches = lists:sum([Count || {_, Count} <- Sorted]),
    Quantile = fun(Share) -> max(Least, middle(at_rank(max(1, ceil(Share * Batches)), Sorted))) end,
    {[Least | [Quantile(Share) || Share <- [0.05, 0.25, 0.5]]], Batches}.

at_rank(Rank, [{At, Count} | _]) when Rank =< Count -> At;
at_rank(Rank, [{_, Count} | Rest]) -> at_rank(Rank - Count, Rest).

middle(Bucket) ->
    round(math:pow(?RATIO, Bucket - 2 + 0.5)).
