%% Statistics of a list of samples, defined as in erlperf.
-module(speedwell_statistics).

-export([of_samples/1, beyond_noise/2]).

%% Average, sample standard deviation (n - 1), and order statistics without interpolation: the element at
%% round(share * n) of the sorted list. A single sample has no deviation.
-spec of_samples([number(), ...]) -> map().
of_samples(Samples) ->
    Count = length(Samples),
    Average = lists:sum(Samples) / Count,
    Variance = case Count of
        1 -> undefined;
        _ -> lists:sum([(Sample - Average) * (Sample - Average) || Sample <- Samples]) / (Count - 1)
    end,
    Sorted = lists:sort(Samples),
    At = fun(Share) -> lists:nth(max(1, round(Share * Count)), Sorted) end,
    #{average => Average, min => hd(Sorted), max => lists:last(Sorted), median => At(0.5), p99 => At(0.99),
      variance => Variance, stddev => case Variance of undefined -> undefined; _ -> math:sqrt(Variance) end}.

%% Whether `More` is greater than `Less` by over 1 %, and by more than twice the standard error of their
%% difference (Welch 1947), which chance exceeds in about one of forty cases.
-spec beyond_noise([number(), ...], [number(), ...]) -> boolean().
beyond_noise(More, Less) ->
    #{average := A, variance := VarianceA} = of_samples(More),
    #{average := B, variance := VarianceB} = of_samples(Less),
    Error = math:sqrt(share(VarianceA, More) + share(VarianceB, Less)),
    A > B * 1.01 andalso A - B > 2 * Error.

share(undefined, _) -> 0;
share(Variance, Samples) -> Variance / length(Samples).
