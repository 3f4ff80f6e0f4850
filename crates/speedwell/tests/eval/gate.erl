%% Services that serve a limited number of callers at a time.
-module(gate).

-export([start/0, call/0, init/1, handle_call/3, handle_cast/2, tokens/1, with_token/0]).
-behaviour(gen_server).

-define(WAIT_MS, 4).

%% A server that takes a fixed time per call.
start() -> gen_server:start_link({local, ?MODULE}, ?MODULE, [], []).

%% The caller is busy for half as long as the server, so a second one is ready before the server is.
call() ->
    timer:sleep(?WAIT_MS div 2),
    gen_server:call(?MODULE, wait, infinity).

init([]) -> {ok, none}.
handle_call(wait, _From, State) ->
    timer:sleep(?WAIT_MS),
    {reply, ok, State}.
handle_cast(_, State) -> {noreply, State}.

%% A pool of tokens, granted in order of request.
tokens(Count) ->
    ets:new(?MODULE, [named_table, public, set, {write_concurrency, true}]),
    ets:insert(?MODULE, [{came, 0}, {left, 0}, {room, Count}]).

%% Takes a token when available, holds it for a while, and returns it.
with_token() ->
    enter(ets:update_counter(?MODULE, came, 1)),
    timer:sleep(2 * ?WAIT_MS),
    ets:update_counter(?MODULE, left, 1).

enter(Number) ->
    case ets:lookup_element(?MODULE, left, 2) + ets:lookup_element(?MODULE, room, 2) >= Number of
        true -> ok;
        false ->
            timer:sleep(1),
            enter(Number)
    end.
