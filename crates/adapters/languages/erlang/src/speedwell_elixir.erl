%% Elixir code as a job: the same loops as for Erlang, as quoted expressions that Elixir compiles. Generated
%% names have a separate context, so they cannot collide with the user's. Start reading at prepare/2. Calls
%% are dynamic, so that nothing here is reached without Elixir on the code path.
-module(speedwell_elixir).

-export([prepare/2, version/0]).

-define(CODE, 'Elixir.Code').
-define(OURS, 'Elixir.Speedwell').

-spec version() -> binary().
version() ->
    started(),
    'Elixir.System':version().

%% Like speedwell_code:prepare/2, which calls it. Throws errors.
-spec prepare(speedwell_code:code(), module()) -> speedwell_code:ready().
prepare(Code, Module) ->
    started(),
    Parts = [{Part, read(Part, maps:get(Part, Code))}
             || Part <- [init, init_runner, done, runner], is_map_key(Part, Code)],
    {Hooks, [{runner, Runner}]} = lists:split(length(Parts) - 1, Parts),
    {Arity, Empty, Loop} = loop(Runner),
    check(Arity, Hooks),
    Defs = lists:append([named(Part, Quoted) || {Part, Quoted} <- Hooks]) ++ Loop,
    Quoted = {defmodule, [], [Module, [{do, {'__block__', [], Defs}}]]},
    Binary = compiled(Quoted, Module),
    Ready = #{module => Module, binary => Binary, source => source(Quoted), form => text, arity => Arity,
              batch => batch, empty => Empty, extra => []},
    lists:foldl(fun(Part, Map) -> Map#{Part => hook(Part, Hooks)} end, Ready, [init, init_runner, done]).

started() ->
    case application:ensure_all_started(elixir) of
        {ok, _} -> ok;
        {error, _} -> fail(protocol, runner, none, "Elixir is not on the code path")
    end.

read(Part, Text) ->
    Options = [{line, 1}, {file, atom_to_binary(Part, utf8)}],
    case ?CODE:string_to_quoted(unicode:characters_to_binary(Text), Options) of
        {ok, {'__block__', _, []}} -> fail(parse, Part, 1, "there is no code");
        {ok, Quoted} -> kind(Quoted);
        {error, {Where, Message, Token}} ->
            Line = if is_list(Where) -> proplists:get_value(line, Where, 1); true -> Where end,
            fail(parse, Part, Line, [message(Message, Token)])
    end.

message({Before, After}, Token) -> [Before, Token, After];
message(Message, Token) -> [Message, Token].

%% A function as `fn`, as `def`, as a capture of a named function, or expressions.
kind({fn, _, [{'->', _, [Heads, _]} | _] = Clauses}) -> {function, arity(Heads), Clauses};
kind({'&', _, [{'/', _, [{{'.', _, _} = Remote, Meta, []}, Arity]}]}) when is_integer(Arity) ->
    Parameters = [var(list_to_atom("p" ++ integer_to_list(N))) || N <- lists:seq(1, Arity)],
    {function, Arity, [{'->', [], [Parameters, {Remote, Meta, Parameters}]}]};
kind({Def, _, [Head | _]} = Form) when Def =:= def; Def =:= defp -> own(Head, [Form]);
kind({'__block__', _, [{Def, _, [Head | _]} | _] = Forms}) when Def =:= def; Def =:= defp -> own(Head, Forms);
kind(Quoted) -> {expressions, Quoted}.

own({'when', _, [Head, _]}, Forms) -> own(Head, Forms);
own({Name, _, Parameters}, Forms) when is_list(Parameters) -> {own, Name, length(Parameters), Forms};
own({Name, _, _}, Forms) -> {own, Name, 0, Forms}.

arity([{'when', _, Parts}]) -> length(Parts) - 1;
arity(Heads) -> length(Heads).

%% Defines a function `Name` from parsed code.
named(Name, {expressions, Quoted}) -> [def(Name, [], Quoted)];
named(Name, {function, _, Clauses}) -> [clause(Name, Clause) || Clause <- Clauses];
named(Name, {own, Name, _, Forms}) -> [public(Form) || Form <- Forms];
named(Name, {own, Other, Arity, Forms}) ->
    Parameters = [var(list_to_atom("p" ++ integer_to_list(N))) || N <- lists:seq(1, Arity)],
    [def(Name, Parameters, {Other, [], Parameters}) | Forms].

public({defp, Meta, Rest}) -> {def, Meta, Rest};
public(Form) -> Form.

clause(Name, {'->', _, [[{'when', Meta, Parts}], Body]}) ->
    {Parameters, [Guard]} = lists:split(length(Parts) - 1, Parts),
    {def, [], [{'when', Meta, [{Name, [], Parameters}, Guard]}, [{do, Body}]]};
clause(Name, {'->', _, [Parameters, Body]}) ->
    def(Name, Parameters, Body).

def(Name, Parameters, Body) ->
    {def, [], [{Name, [], Parameters}, [{do, Body}]]}.

var(Name) ->
    {Name, [], ?OURS}.

%% batch(Count, Result, State...) counts down and passes every result on, like the loops of `speedwell_loop`.
loop({expressions, Quoted}) ->
    {0, expression, batch(Quoted, [])};
loop({own, Name, Arity, Forms}) ->
    {Arity, empty(Arity), Forms ++ calling(Name, Arity)};
loop({function, Arity, _} = Function) ->
    {Arity, empty(Arity), named(runner, Function) ++ calling(runner, Arity)}.

empty(0) -> call;
empty(1) -> state;
empty(_) -> both.

calling(Name, 0) -> batch({Name, [], []}, []);
calling(Name, 1) -> batch({Name, [], [var(state)]}, [var(state)]);
calling(Name, 2) -> batch({Name, [], [var(state), var(result)]}, [var(state)]);
calling(_, _) -> [].

batch({_, _, Arguments} = Call, Passed) ->
    Previous = case is_list(Arguments) andalso lists:member(var(result), Arguments) of
        true -> var(result);
        false -> var('_result')
    end,
    batch(Call, Passed, Previous);
batch(Literal, Passed) ->
    batch(Literal, Passed, var('_result')).

batch(Quoted, Passed, Previous) ->
    Unused = [var('_state') || _ <- Passed],
    Next = {batch, [], [{'-', [], [var(count), 1]}, Quoted | Passed]},
    [def(batch, [0, var(result) | Unused], var(result)), def(batch, [var(count), Previous | Passed], Next)].

check(Arity, Hooks) ->
    Takes = fun(Part) -> case proplists:get_value(Part, Hooks) of
                             undefined -> 0;
                             {expressions, _} -> 0;
                             {function, N, _} -> N;
                             {own, _, N, _} -> N
                         end end,
    Has = fun(Part) -> lists:keymember(Part, 1, Hooks) end,
    [fail(compile, Part, none, io_lib:format("~s/1 requires init function defined", [Part]))
     || Part <- [done, init_runner], Takes(Part) =:= 1, not Has(init)],
    [fail(compile, Part, none, io_lib:format("~s takes ~w arguments, at most ~w can be given", [Part, Takes(Part), Most]))
     || {Part, Most} <- [{init, 0}, {init_runner, 1}, {done, 1}], Takes(Part) > Most],
    Arity > 2 andalso fail(compile, runner, none, "a runner takes at most state and previous result"),
    Arity > 0 andalso not Has(init_runner) andalso
        fail(compile, runner, none, io_lib:format("runner/~w requires init_runner function defined", [Arity])),
    ok.

hook(Part, Hooks) ->
    case proplists:get_value(Part, Hooks) of
        undefined -> none;
        {expressions, _} -> {local, Part, 0};
        {function, Arity, _} -> {local, Part, Arity};
        {own, _, Arity, _} -> {local, Part, Arity}
    end.

compiled(Quoted, Module) ->
    ?CODE:put_compiler_option(ignore_module_conflict, true),
    try
        [{Module, Binary} | _] = diagnosed(fun() -> ?CODE:compile_quoted(Quoted, <<"runner">>) end),
        Binary
    catch
        error:#{'__struct__' := _} = Exception ->
            Message = 'Elixir.Exception':message(maps:remove(line, maps:remove(file, Exception))),
            fail(compile, runner, maps:get(line, Exception, none), [described(Exception, Message)])
    end.

described(#{description := Description}, _) when is_binary(Description) -> Description;
described(_, Message) -> Message.

%% Since Elixir 1.15 the exception only says that there were errors; the errors themselves are diagnostics.
diagnosed(Compile) ->
    case erlang:function_exported(?CODE, with_diagnostics, 1) of
        false -> Compile();
        true ->
            Caught = fun() -> try {ok, Compile()} catch error:Reason -> {error, Reason} end end,
            case ?CODE:with_diagnostics(Caught) of
                {{ok, Modules}, _} -> Modules;
                {{error, Reason}, Diagnostics} -> first([D || #{severity := error} = D <- Diagnostics], Reason)
            end
    end.

first([#{message := Message, position := Position} | _], _) ->
    Line = case Position of {L, _} -> L; L -> L end,
    fail(compile, runner, Line, [Message]);
first([], Reason) ->
    erlang:error(Reason).

source(Quoted) ->
    unicode:characters_to_list('Elixir.Macro':to_string(Quoted)).

-spec fail(atom(), atom(), integer() | none, iodata()) -> no_return().
fail(Stage, Part, Line, Message) ->
    Text = lists:flatten(unicode:characters_to_list(Message)),
    Error = #{stage => Stage, class => case Stage of parse -> syntax; _ -> compile end, part => Part, msg => Text ++ hint(Text)},
    throw({code, case is_integer(Line) andalso Line > 0 of true -> Error#{line => Line}; false -> Error end}).

%% Expressions have no variable for the worker's state, however older versions of Elixir interpret the name.
hint(Text) ->
    case re:run(Text, "undefined (function state/0|variable \"state\")") of
        {match, _} -> "\nhint: the state is an argument of a function: 'fn state -> ... end'";
        nomatch -> ""
    end.
