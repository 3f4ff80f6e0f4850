%% Keeps the reports of the monitors of all connected nodes for a limited time.
-module(erlperf_history).
-behaviour(gen_server).

-export([start_link/0, start_link/1, get/1, get/2]).
-export([init/1, handle_call/3, handle_cast/2, handle_info/2]).

-spec start_link() -> {ok, pid()} | {error, term()}.
start_link() -> start_link(120000).

%% Keeps what is younger than this many milliseconds by the clock of this node.
-spec start_link(pos_integer()) -> {ok, pid()} | {error, term()}.
start_link(Duration) -> gen_server:start_link({local, ?MODULE}, ?MODULE, Duration, []).

%% Everything since `From`, in wall-clock milliseconds.
-spec get(integer()) -> [{Time :: integer(), map()}].
get(From) -> get(From, erlang:system_time(millisecond)).

%% Both ends are inclusive.
-spec get(integer(), integer()) -> [{Time :: integer(), map()}].
get(From, To) ->
    [{Time, Map} || {{Time, _}, Map} <- ets:select(?MODULE, [{{{'$1', '_'}, '_'}, [{'>=', '$1', From}, {'=<', '$1', To}], ['$_']}])].

init(Duration) ->
    ets:new(?MODULE, [named_table, ordered_set, protected]),
    ok = pg:join(erlperf, cluster_monitor, self()),
    {ok, Duration}.

handle_call(_, _, Duration) -> {reply, ok, Duration}.
handle_cast(_, Duration) -> {noreply, Duration}.

handle_info(#{time := Time, node := Node} = Map, Duration) ->
    ets:insert(?MODULE, {{Time, Node}, Map}),
    forget(erlang:system_time(millisecond) - Duration),
    {noreply, Duration};
handle_info(_, Duration) ->
    {noreply, Duration}.

forget(Before) ->
    case ets:first(?MODULE) of
        {Time, _} = Key when Time < Before -> ets:delete(?MODULE, Key), forget(Before);
        _ -> ok
    end.
