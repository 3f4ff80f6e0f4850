%% The framing of the protocol (docs/reference/protocol.md, "Framing"): lines of a verb and fields. Independent of
%% verbs.
-module(speedwell_wire).

-export([decode/1, encode/2, lines/3]).

%% Longer lists are split over several lines; each stays far below 1 MiB.
-define(ITEMS, 20000).

%% Parses a line without its line feed.
-spec decode(binary()) -> {Verb :: binary(), #{binary() => binary()}}.
decode(Line) ->
    [Verb | Words] = binary:split(Line, <<"\t">>, [global]),
    Pairs = [binary:split(Word, <<"=">>) || Word <- Words],
    {Verb, maps:from_list([{Key, unescape(Value, <<>>)} || [Key, Value] <- Pairs])}.

unescape(<<$%, A, B, Rest/binary>>, Done) ->
    case {digit(A), digit(B)} of
        {High, Low} when is_integer(High), is_integer(Low) ->
            unescape(Rest, <<Done/binary, (High * 16 + Low)>>);
        _ -> unescape(<<A, B, Rest/binary>>, <<Done/binary, $%>>)
    end;
unescape(<<Byte, Rest/binary>>, Done) -> unescape(Rest, <<Done/binary, Byte>>);
unescape(<<>>, Done) -> Done.

digit(D) when D >= $0, D =< $9 -> D - $0;
digit(D) when D >= $a, D =< $f -> D - $a + 10;
digit(D) when D >= $A, D =< $F -> D - $A + 10;
digit(_) -> none.

%% Encodes one line. Values are numbers, atoms, text, or {list, Items}.
-spec encode(atom(), [{atom() | string(), term()}]) -> iodata().
encode(Verb, Fields) ->
    [atom_to_binary(Verb, utf8), [[$\t, key(Key), $=, value(Value)] || {Key, Value} <- Fields], $\n].

%% Encodes as many lines as the longest of the lists in `Long` needs. The lists are split alike.
-spec lines(atom(), [{atom(), term()}], [{atom(), list()}]) -> iodata().
lines(Verb, Fields, Long) ->
    Parts = [{Key, split(List)} || {Key, List} <- Long],
    lines_of(Verb, Fields, Parts).

lines_of(Verb, Fields, Parts) ->
    Now = [{Key, {list, First}} || {Key, [First | _]} <- Parts],
    case [{Key, Rest} || {Key, [_ | [_ | _] = Rest]} <- Parts] of
        [] -> [encode(Verb, Fields ++ Now)];
        Later -> [encode(Verb, Fields ++ Now ++ [{more, 1}]) | lines_of(Verb, Fields, Later)]
    end.

split(List) when length(List) =< ?ITEMS -> [List];
split(List) ->
    {First, Rest} = lists:split(?ITEMS, List),
    [First | split(Rest)].

key(Key) when is_atom(Key) -> atom_to_binary(Key, utf8);
key(Key) -> unicode:characters_to_binary(Key).

value({list, Items}) -> lists:join($,, [escape(bytes(Item), <<",">>) || Item <- Items]);
value(Value) -> escape(bytes(Value), <<>>).

bytes(Value) when is_integer(Value) -> integer_to_binary(Value);
bytes(Value) when is_float(Value) -> float_to_binary(Value, [{decimals, 2}]);
bytes(Value) when is_atom(Value) -> atom_to_binary(Value, utf8);
bytes(Value) ->
    case unicode:characters_to_binary(Value) of
        Binary when is_binary(Binary) -> Binary;
        %% Anything that is not text is formatted as a term.
        _ -> unicode:characters_to_binary(io_lib:format("~0tp", [Value]))
    end.

%% Numbers, which most values are, need no escaping.
escape(Bytes, Extra) ->
    case is_plain(Bytes, Extra) of
        true -> Bytes;
        false -> << <<(escaped(Byte, Extra))/binary>> || <<Byte>> <= Bytes >>
    end.

is_plain(<<Byte, Rest/binary>>, Extra) when Byte >= 16#20, Byte =/= $%, Byte =/= 16#7f, Byte =/= $, ->
    is_plain(Rest, Extra);
is_plain(<<$,, Rest/binary>>, <<>>) -> is_plain(Rest, <<>>);
is_plain(<<>>, _) -> true;
is_plain(_, _) -> false.

escaped(Byte, Extra) when Byte < 16#20; Byte =:= $%; Byte =:= 16#7f; <<Byte>> =:= Extra ->
    <<$%, (hex(Byte div 16)), (hex(Byte rem 16))>>;
escaped(Byte, _) -> <<Byte>>.

hex(N) when N < 10 -> $0 + N;
hex(N) -> $A + N - 10.
