%% The loop around a runner, as forms and as text. Every loop is batch(Count, Result, ...): it counts down
%% and passes the result of each iteration on, so that the compiler cannot remove a pure runner; it reads
%% no clock and keeps no other counter. Start reading at of_runner/2.
-module(speedwell_loop).

-export([of_runner/2, fresh/2, form/1, tokens/2]).

%% How the loop of a runner looks: `export`, `forms`, `texts`, `form`, `arity`, `extra`,
%% `batch` (its name), `empty` (the corresponding loop of `speedwell_empty`), `folds` (whether the compiler
%% may have computed its result in advance). `Taken` are names of functions that the user has chosen.
-spec of_runner(speedwell_text:part() | {'fun', fun()}, [atom()]) -> map().
of_runner({expressions, Tokens, Text}, Taken) ->
    Batch = fresh(batch, Taken),
    Used = speedwell_text:variables(Tokens),
    Count = fresh('Count', Used),
    Before = tokens("~s(~s, _) -> ~s(~s - 1, begin ", [Batch, Count, Batch, Count]),
    Loop = tokens("~s(0, Result) -> Result; ", [Batch]) ++ Before ++ Tokens ++ tokens(" end).", []),
    #{export => {Batch, 2}, form => text, arity => 0, extra => [], batch => Batch,
      empty => expression, folds => not has_remote_call(expressions(Tokens)),
      forms => [form(Loop)],
      texts => [io_lib:format("~s(0, Result) ->~n    Result;~n~s(~s, _) ->~n    ~s(~s - 1, begin ~ts end).~n",
                              [Batch, Batch, Count, Batch, Count, Text])]};
of_runner({function, Name, Arity, Tokens, Text}, Taken) ->
    {function, _, _, _, Clauses} = Form = form(Tokens),
    Own = #{folds => folds(Clauses), forms => [Form], texts => ["\n" ++ string:trim(Text, trailing, ".") ++ ".\n"], form => text},
    around(io_lib:format("~p", [Name]), Arity, [], Own, Taken);
of_runner({clauses, Arity, Clauses, Text}, Taken) ->
    Name = fresh(runner, Taken),
    Own = #{folds => folds(Clauses), forms => [{function, 1, Name, Arity, Clauses}],
            texts => [io_lib:format("~n~p: ~ts.~n", [Name, string:trim(Text, trailing, ".")])], form => text},
    around(io_lib:format("~p", [Name]), Arity, [], Own, Taken);
of_runner({remote, M, F, Arity}, Taken) ->
    around(io_lib:format("~p:~p", [M, F]), Arity, [], #{folds => false, forms => [], texts => [], form => text}, Taken);
of_runner({'fun', Fun}, Taken) ->
    {arity, Arity} = erlang:fun_info(Fun, arity),
    around("Fun", Arity, ["Fun"], #{folds => false, forms => [], texts => [], form => 'fun', extra => [Fun]}, Taken);
of_runner({mfa, M, F, A}, Taken) ->
    calling("erlang:apply(M, F, A)", ["M", "F", "A"], #{form => mfa, extra => [M, F, A]}, Taken);
of_runner({list, List}, Taken) ->
    calling("[erlang:apply(M, F, A) || {M, F, A} <- List]", ["List"], #{form => mfa, extra => [List]}, Taken).

%% A loop that calls a function of 0, 1 or 2 arguments: none; state; state and previous result.
around(Callee, Arity, Extra, Own, Taken) when Arity =< 2 ->
    {Arguments, Passed, Previous, Empty} = case Arity of
        0 -> {[], Extra, "_", call};
        1 -> {["State"], Extra ++ ["State"], "_", state};
        2 -> {["State", "Result"], Extra ++ ["State"], "Result", both}
    end,
    Call = [Callee, "(", lists:join(", ", Arguments), ")"],
    written(Call, Passed, Previous, Own#{arity => Arity, empty => Empty}, Taken);
around(_, Arity, _, Own, _) ->
    %% The check of the hooks rejects it; there is no loop to generate.
    Own#{arity => Arity, export => {batch, 2}, batch => batch, extra => [], empty => call}.

calling(Call, Passed, Own, Taken) ->
    written(Call, Passed, "_", Own#{arity => 0, empty => applied, folds => false, forms => [], texts => []}, Taken).

written(Call, Passed, Previous, #{forms := Forms, texts := Texts} = Own, Taken) ->
    Batch = fresh(batch, Taken),
    More = [[", ", Name] || Name <- Passed],
    Blank = [", _" || _ <- Passed],
    Text = io_lib:format("~s(0, Result~s) ->~n    Result;~n~s(Count, ~s~s) ->~n    ~s(Count - 1, ~s~s).~n",
                         [Batch, Blank, Batch, Previous, More, Batch, Call, More]),
    maps:merge(#{extra => []},
               Own#{export => {Batch, 2 + length(Passed)}, batch => Batch, forms => [form(tokens("~s", [Text])) | Forms],
                    texts => [Text | Texts]}).

%% Whether the compiler may know the result of these clauses: not where it is computed from an
%% argument, nor where a function of another module is called.
folds(Clauses) ->
    lists:any(fun({clause, _, Head, _, Body}) ->
                  Arguments = [Name || Name <- variables(Head), Name =/= '_'],
                  not has_remote_call(Body) andalso
                      not lists:any(fun(Name) -> lists:member(Name, Arguments) end, variables(lists:last(Body)))
              end, Clauses).

%% The compiler evaluates pure functions of these modules where their arguments are known.
has_remote_call({call, _, {remote, _, {atom, _, Module}, _}, Arguments}) ->
    not lists:member(Module, [erlang, lists, math, maps]) orelse has_remote_call(Arguments);
has_remote_call(Form) when is_tuple(Form) -> has_remote_call(tuple_to_list(Form));
has_remote_call(Forms) when is_list(Forms) -> lists:any(fun has_remote_call/1, Forms);
has_remote_call(_) -> false.

variables({var, _, Name}) -> [Name];
variables(Form) when is_tuple(Form) -> variables(tuple_to_list(Form));
variables(Forms) when is_list(Forms) -> lists:flatmap(fun variables/1, Forms);
variables(_) -> [].

expressions(Tokens) ->
    {ok, Expressions} = erl_parse:parse_exprs(Tokens ++ tokens(".", [])),
    Expressions.

%% `Name`, followed by as many underscores as it takes to be unique.
-spec fresh(atom(), [atom()]) -> atom().
fresh(Name, Taken) ->
    case lists:member(Name, Taken) of
        true -> fresh(list_to_atom(atom_to_list(Name) ++ "_"), Taken);
        false -> Name
    end.

-spec form(list()) -> erl_parse:abstract_form().
form(Tokens) ->
    {ok, Form} = erl_parse:parse_form(Tokens),
    Form.

%% Tokens of generated text. They count as line 1, where the user's text begins.
-spec tokens(string(), list()) -> list().
tokens(Format, Values) ->
    {ok, Tokens, _} = erl_scan:string(lists:flatten(io_lib:format(Format, Values)), {1, 1}),
    [at_line_1(Token) || Token <- Tokens].

at_line_1({Kind, _}) -> {Kind, {1, 1}};
at_line_1({Kind, _, Value}) -> {Kind, {1, 1}, Value}.
