%% Parses Erlang text as typed by the user: tokens, and whether it is a function, a fun, a tuple {M,
%% F, A} or expressions. Independent of loops and jobs; `speedwell_code` generates them.
-module(speedwell_text).

-export([read/2, variables/1, is_text/1, is_call/1]).

-export_type([part/0]).

%% function: one form with its own name. clauses: a fun, whose clauses become a function. expressions:
%% pasted where they are needed.
-type part() ::
    {function, Name :: atom(), arity(), Tokens :: list(), Text :: string()}
    | {clauses, arity(), Clauses :: list(), Text :: string()}
    | {remote, module(), atom(), arity()}
    | {mfa, module(), atom(), list()}
    | {list, [{module(), atom(), list()}]}
    | {expressions, Tokens :: list(), Text :: string()}.

%% Parses the text of `Part` (runner, init, init_runner or done).
-spec read(atom(), unicode:chardata()) -> part().
read(Part, Chars) ->
    Given = unicode:characters_to_list(Chars),
    Text = string:trim(Given),
    %% Line numbers refer to the given text.
    case erl_scan:string(Given, {1, 1}) of
        {ok, [], _} -> fail(Part, {1, 1}, "there is no code");
        {ok, Tokens, End} -> parse(Part, Text, Tokens, End);
        {error, {{Line, _}, Module, What}, {End, _}} ->
            fail(Part, Line, Module:format_error(What), #{reason => {generate, {scan, Part, {Line, Module, What}, End}}})
    end.

%% Whether it is a valid text.
-spec is_text(term()) -> boolean().
is_text(Given) ->
    try unicode:characters_to_list(Given) of
        Text -> is_list(Text)
    catch
        error:badarg -> false
    end.

%% The final dot is optional. It decides one thing: a tuple {M, F, A} with a dot is an expression.
parse(Part, Text, Tokens, End) ->
    case lists:last(Tokens) of
        {dot, _} -> parse(Part, Text, Tokens);
        _ -> without_dot(Part, Text, Tokens ++ [{dot, End}])
    end.

without_dot(Part, Text, Tokens) ->
    case erl_parse:parse_exprs(Tokens) of
        {ok, [Form]} -> literal(Form, Part, Text, Tokens);
        _ -> parse(Part, Text, Tokens)
    end.

literal(Form, Part, Text, Tokens) ->
    try erl_parse:normalise(Form) of
        {M, F, A} when is_atom(M), is_atom(F), is_list(A) -> {mfa, M, F, A};
        [_ | _] = List ->
            case lists:all(fun is_call/1, List) of
                true -> {list, List};
                false -> parse(Part, Text, Tokens)
            end;
        _ -> parse(Part, Text, Tokens)
    catch
        error:_ -> parse(Part, Text, Tokens)
    end.

%% Whether it is a call written as a tuple.
-spec is_call(term()) -> boolean().
is_call({M, F, A}) -> is_atom(M) andalso is_atom(F) andalso is_list(A);
is_call(_) -> false.

parse(Part, Text, Tokens) ->
    case {erl_parse:parse_form(Tokens), erl_parse:parse_exprs(Tokens)} of
        {{ok, {function, _, Name, Arity, _}}, _} ->
            {function, Name, Arity, Tokens, Text};
        {_, {ok, [{'fun', _, {clauses, [{clause, _, Parameters, _, _} | _] = Clauses}}]}} ->
            {clauses, length(Parameters), Clauses, Text};
        {_, {ok, [{'fun', _, {function, {atom, _, M}, {atom, _, F}, {integer, _, A}}}]}} ->
            {remote, M, F, A};
        {_, {ok, _}} ->
            {expressions, lists:droplast(Tokens), without_end(Text)};
        {{error, Form}, {error, Expressions}} ->
            {Location, Module, What} = furthest(Form, Expressions),
            fail(Part, Location, Module:format_error(What));
        {{ok, _}, {error, {Location, Module, What}}} ->
            fail(Part, Location, Module:format_error(What))
    end.

%% Of two failed parses, the one that got further has the user's error.
furthest({A, _, _} = Form, {B, _, _}) when is_tuple(A), is_tuple(B), A > B -> Form;
furthest(_, Expressions) -> Expressions.

without_end(Text) ->
    string:trim(string:trim(Text, trailing, "."), trailing).

%% Names of the variables among tokens.
-spec variables(list()) -> [atom()].
variables(Tokens) ->
    [Name || {var, _, Name} <- Tokens].

-spec fail(atom(), term(), iodata()) -> no_return().
fail(Part, Location, Message) ->
    fail(Part, Location, Message, #{}).

-spec fail(atom(), term(), iodata(), map()) -> no_return().
fail(Part, Location, Message, More) ->
    Line = case Location of {L, _} -> L; L -> L end,
    throw({code, More#{stage => parse, class => syntax, line => Line, part => Part, msg => lists:flatten(Message)}}).
