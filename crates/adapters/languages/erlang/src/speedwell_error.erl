%% Converts errors to fields of an `error` event: Erlang's message, with the line in the user's
%% own text.
-module(speedwell_error).

-export([of_code/1, of_failure/1, all/1, exit_reason/1, line/1]).

%% For code that could not be parsed or compiled.
-spec of_code(map()) -> [{atom(), term()}].
of_code(Error = #{stage := Stage, class := Class, msg := Message}) ->
    [{stage, Stage}, {class, Class}, {msg, Message}]
    ++ [{Key, maps:get(Key, Error)} || Key <- [line, part], is_map_key(Key, Error)] ++ [{fatal, 0}].

%% A failure, and the subsequent one of `done`, if any.
-spec all(speedwell_job:failure()) -> [speedwell_job:failure()].
all(#{then := Later} = Failure) -> [maps:remove(then, Failure), Later];
all(Failure) -> [Failure].

%% For code that failed during execution.
-spec of_failure(speedwell_job:failure()) -> [{atom(), term()}].
of_failure(#{stage := Stage, class := Class, reason := Reason, stack := Stack}) ->
    Own = lists:takewhile(fun(Call) -> not lists:member(element(1, Call), [speedwell_worker, speedwell_job]) end, Stack),
    [{stage, Stage}, {class, Class}, {msg, message(Class, Reason, Stack)}]
    ++ [{line, Line} || Line <- line(Stack)]
    ++ [{stack, lists:join("\n", [call(Call) || Call <- Own])} || Own =/= []] ++ [{fatal, 0}].

%% If Elixir is loaded, errors have Elixir's message.
message(timeout, Text, _) ->
    Text;
message(error, Reason, Stack) ->
    in_elixir(Reason, fun() -> 'Elixir.Exception':message('Elixir.Exception':normalize(error, Reason, Stack)) end);
message(throw, Reason, _) ->
    in_elixir(Reason, fun() -> ["(throw) ", 'Elixir.Kernel':inspect(Reason)] end);
message(exit, Reason, _) ->
    in_elixir(Reason, fun() -> ["(exit) ", 'Elixir.Exception':format_exit(Reason)] end);
message(_, Reason, _) ->
    term(Reason).

%% Code from the cache has not loaded anything of Elixir yet.
in_elixir(Reason, Words) ->
    case code:ensure_loaded('Elixir.Exception') of
        {module, _} -> try Words() catch _:_ -> term(Reason) end;
        {error, _} -> term(Reason)
    end.

term(Reason) ->
    io_lib:format("~0tp", [Reason]).

%% Parts of the user's code have their name as file name.
-spec line(list()) -> [pos_integer()].
line(Stack) ->
    Lines = [proplists:get_value(line, Place) || {_, _, _, Place} <- Stack,
             lists:member(proplists:get_value(file, Place), ["runner", "init", "init_runner", "done"])],
    lists:sublist([Line || Line <- Lines, is_integer(Line)], 1).

call({M, F, Arity, Place}) ->
    Count = if is_list(Arity) -> length(Arity); true -> Arity end,
    Where = [io_lib:format(" (~ts:~w)", [File, proplists:get_value(line, Place, 0)])
             || {file, File} <- Place],
    io_lib:format("~tp:~tp/~w~ts", [M, F, Count, Where]);
call(Other) ->
    term(Other).

%% The reason that the process would have exited with if the failure had not been caught.
-spec exit_reason(speedwell_job:failure()) -> term().
exit_reason(#{class := error, reason := Reason, stack := Stack}) -> {Reason, Stack};
exit_reason(#{class := throw, reason := Reason, stack := Stack}) -> {{nocatch, Reason}, Stack};
exit_reason(#{class := exit, reason := Reason}) -> Reason.
