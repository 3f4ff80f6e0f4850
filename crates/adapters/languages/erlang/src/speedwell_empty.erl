%% Measures the overhead of an iteration: the loops of `speedwell_loop` around an empty runner.
-module(speedwell_empty).

-export([picoseconds/2, expression/3, call/3, state/3, both/3, applied/3, nothing/0, nothing/1, nothing/2]).

%% The minimum time per iteration of a batch, measured for about `TargetNs` with the loop of such a
%% job.
-spec picoseconds(speedwell_code:ready(), pos_integer()) -> non_neg_integer().
picoseconds(#{empty := Loop}, TargetNs) ->
    Until = erlang:monotonic_time() + erlang:convert_time_unit(TargetNs, nanosecond, native),
    least(Loop, 1, Until, infinity).

least(Loop, Size, Until, Least) ->
    From = erlang:monotonic_time(),
    ?MODULE:Loop(Size, undefined, {?MODULE, nothing, []}),
    To = erlang:monotonic_time(),
    Took = erlang:convert_time_unit(To - From, native, nanosecond),
    if
        %% Batches that are too short measure the clock, not the loop.
        Took < 50000 -> least(Loop, Size * 2, Until, Least);
        To < Until -> least(Loop, Size, Until, min(Least, Took * 1000 div Size));
        true -> min(Least, Took * 1000 div Size)
    end.

expression(0, Result, _) -> Result;
expression(Count, _, State) -> expression(Count - 1, ok, State).

call(0, Result, _) -> Result;
call(Count, _, State) -> call(Count - 1, nothing(), State).

state(0, Result, _) -> Result;
state(Count, _, State) -> state(Count - 1, nothing(State), State).

both(0, Result, _) -> Result;
both(Count, Result, State) -> both(Count - 1, nothing(State, Result), State).

applied(0, Result, _) -> Result;
applied(Count, _, {M, F, A} = Callee) -> applied(Count - 1, erlang:apply(M, F, A), Callee).

nothing() -> ok.
nothing(_) -> ok.
nothing(_, Result) -> Result.
