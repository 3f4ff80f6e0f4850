%% Retries for tests on a busy machine.
-module(speedwell_patience).
-export([until/2]).

%% Polls every few milliseconds until the condition holds.
until(Is, Looks) ->
    case Is() of
        true -> ok;
        false when Looks > 1 -> timer:sleep(3), until(Is, Looks - 1);
        false -> error(never)
    end.
