%% Patience of tests with a machine that is busy.
-module(speedwell_patience).
-export([until/2]).

%% Looks until it is so, a few milliseconds apart.
until(Is, Looks) ->
    case Is() of
        true -> ok;
        false when Looks > 1 -> timer:sleep(3), until(Is, Looks - 1);
        false -> error(never)
    end.
