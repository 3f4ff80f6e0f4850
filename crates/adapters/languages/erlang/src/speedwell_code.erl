%% Compiles a code map into a job that can be started: generates the loop around the user's code, compiles
%% it into a separate module, and keeps the module's source. Start reading at prepare/2. `speedwell_text`
%% parses texts; `speedwell_elixir` generates Elixir.
-module(speedwell_code).

-export([prepare/1, prepare/2, source/1, reason/1, load/1, unload/1, compile_file/1]).

-export_type([code/0, ready/0, hook/0]).

-type callable() :: string() | binary() | {module(), atom(), list()} | [{module(), atom(), list()}] | fun().
%% `imports` are files of the user: name, module and exports, which the code calls like its own functions.
-type code() :: #{runner := callable(), init => callable(), init_runner => callable(), done => callable(),
                  lang => erlang | elixir, label => string(), imports => [import()], _ => _}.
-type import() :: {file:name(), module(), [{atom(), arity()}]}.
-type hook() :: none | {local, atom(), 0 | 1} | {mfa, module(), atom(), list()} | {list, list()} | {'fun', fun()}.

%% `binary` is the compiled module. Its loop `batch` takes (Count, Result, Extra...): it executes Count
%% iterations and returns the last result, so that every result is used. `extra` are the arguments known
%% before a worker starts; `arity` says whether state and previous result follow them.
-type ready() :: #{module := module(), binary := binary(), source := string(), form := text | mfa | 'fun',
                   batch := atom(), empty := atom(), arity := 0..2, extra := list(),
                   folds => boolean(), init := hook(), init_runner := hook(), done := hook()}.

-define(HOOKS, [init, init_runner, done]).

%% Prepares the code under a unique module name.
-spec prepare(code()) -> {ok, ready()} | {error, map()}.
prepare(Code) ->
    prepare(Code, name()).

name() ->
    list_to_atom("job_" ++ os:getpid() ++ "_" ++ integer_to_list(erlang:unique_integer([positive]))).

%% Errors are maps with stage, class, msg, part and, if known, line. `reason` is erlperf's term for it.
-spec prepare(code(), module()) -> {ok, ready()} | {error, map()}.
prepare(Code, Module) ->
    try
        case maps:get(lang, Code, erlang) of
            erlang -> {ok, compile(generate(Code, Module), Module)};
            elixir -> {ok, speedwell_elixir:prepare(Code, Module)}
        end
    catch
        throw:{code, Error} -> {error, Error}
    end.

%% The source of the module that would be executed, called `benchmark`.
-spec source(code()) -> string().
source(Code) ->
    try generate(Code, benchmark) of
        #{source := Source} -> Source
    catch
        throw:{code, Error} -> erlang:error(reason(Error))
    end.

%% An error as the reason of an exception, in erlperf's format.
-spec reason(map()) -> term().
reason(#{reason := Reason}) -> Reason;
reason(#{stage := Stage, part := Part, msg := Message}) -> {generate, {Stage, Part, Message}}.

-spec load(ready()) -> ok.
load(#{module := Module, binary := Binary}) ->
    {module, Module} = code:load_binary(Module, atom_to_list(Module) ++ ".erl", Binary),
    ok.

-spec unload(ready()) -> ok.
unload(#{module := Module}) ->
    code:purge(Module),
    code:delete(Module),
    code:purge(Module),
    ok.

%% Returns everything about the module except its binary.
generate(Code, Module) ->
    Parts = [{Part, part(Part, maps:get(Part, Code))} || Part <- [runner | ?HOOKS], is_map_key(Part, Code)],
    Own = [{Name, Arity} || {_, {function, Name, Arity, _, _}} <- Parts],
    Imports = imports(maps:get(imports, Code, []), Own),
    Taken = [Name || {Name, _} <- Own ++ lists:append([Functions || {_, Functions} <- Imports])],
    Hooks = [{Part, hook(Part, Value, Taken)} || {Part, Value} <- Parts, Part =/= runner],
    Loop = speedwell_loop:of_runner(proplists:get_value(runner, Parts), Taken),
    check(maps:get(arity, Loop), Hooks),
    Exports = [{N, A} || {_, #{hook := {local, N, A}}} <- Hooks] ++ [maps:get(export, Loop)],
    Texts = [T || {_, #{text := T}} <- Hooks] ++ maps:get(texts, Loop),
    Head = [io_lib:format("-module(~p).~n-export([~ts]).~n", [Module, listed(Exports)])
            | [io_lib:format("-import(~p, [~ts]).~n", [M, listed(Functions)]) || {M, Functions} <- Imports]],
    Base = #{
        module => Module,
        source => unicode:characters_to_list([Head, "\n", lists:join("\n", Texts)]),
        exports => Exports,
        imports => maps:get(imports, Code, []),
        forms => [{attribute, 1, import, Import} || Import <- Imports]
                 ++ lists:append([in_file(Part, F) || {Part, #{forms := F}} <- Hooks])
                 ++ in_file(runner, maps:get(forms, Loop))
    },
    %% The compiler does not know what an imported function does.
    Folds = Imports =:= [] andalso maps:get(folds, Loop),
    Plain = (maps:with([form, arity, extra, batch, empty], Loop))#{folds => Folds},
    lists:foldl(fun(Part, Map) -> Map#{Part => found(Part, Hooks)} end, maps:merge(Base, Plain), ?HOOKS).

%% The functions to import: not those that the user's code or Erlang defines, and each of them once.
imports(Files, Own) ->
    {Imports, _} = lists:mapfoldl(fun({_, Module, Functions}, Seen) ->
        New = [F || {Name, Arity} = F <- Functions, not lists:member(F, Seen), not erl_internal:bif(Name, Arity)],
        {{Module, New}, New ++ Seen}
    end, Own, Files),
    Imports.

listed(Functions) ->
    lists:join(", ", [io_lib:format("~p/~w", [Name, Arity]) || {Name, Arity} <- Functions]).

found(Part, Hooks) ->
    case lists:keyfind(Part, 1, Hooks) of
        {_, #{hook := Hook}} -> Hook;
        false -> none
    end.

part(_, Fun) when is_function(Fun) -> {'fun', Fun};
part(_, {M, F, A}) when is_atom(M), is_atom(F), is_list(A) -> {mfa, M, F, A};
part(Part, [{_, _, _} | _] = List) ->
    case [Call || Call <- List, not speedwell_text:is_call(Call)] of
        [] -> {list, List};
        [Other | _] -> refuse(Part, io_lib:format("~0tp is not a call {Module, Function, Arguments}", [Other]), invalid(Part, Other))
    end;
part(Part, Given) ->
    case speedwell_text:is_text(Given) of
        true -> speedwell_text:read(Part, Given);
        false -> refuse(Part, io_lib:format("~0tp is not a text or function", [Given]), {parse, Part, Given})
    end.

invalid(init, _) -> {init, 0, invalid};
invalid(runner, Other) -> {runner, 0, invalid, Other};
invalid(Part, Other) -> {Part, 1, invalid, Other}.

%% A hook: what it calls, and the forms and text that it adds to the module.
hook(_, {mfa, _, _, _} = Mfa, _) -> #{hook => Mfa};
hook(_, {list, _} = List, _) -> #{hook => List};
hook(_, {remote, M, F, A}, _) -> #{hook => {'fun', fun M:F/A}};
hook(_, {'fun', _} = Fun, _) -> #{hook => Fun};
hook(_, {function, Name, Arity, Tokens, Text}, _) ->
    #{hook => {local, Name, Arity}, forms => [speedwell_loop:form(Tokens)], text => finished(Text)};
hook(Part, {clauses, Arity, Clauses, Text}, Taken) ->
    Name = speedwell_loop:fresh(Part, Taken),
    #{hook => {local, Name, Arity}, forms => [{function, 1, Name, Arity, Clauses}],
      text => io_lib:format("~p: ~ts~n", [Name, finished(Text)])};
hook(Part, {expressions, Tokens, Text}, Taken) ->
    Name = speedwell_loop:fresh(Part, Taken),
    #{hook => {local, Name, 0},
      forms => [speedwell_loop:form(speedwell_loop:tokens("~p() -> ", [Name]) ++ Tokens
                                    ++ speedwell_loop:tokens(".", []))],
      text => io_lib:format("~p() -> ~ts.~n", [Name, Text])}.

finished(Text) ->
    [string:trim(Text, trailing, "."), ".\n"].

%% Checks that each argument of a hook is the result of another one.
check(RunnerArity, Hooks) ->
    Has = fun(Part) -> lists:keymember(Part, 1, Hooks) end,
    Takes = fun(Part) -> case lists:keyfind(Part, 1, Hooks) of
                             {_, #{hook := Hook}} -> takes(Hook);
                             false -> 0
                         end end,
    [refuse(Part, io_lib:format("~s/1 requires init function defined", [Part]), {Part, 1, requires, init})
     || Part <- [done, init_runner], Takes(Part) =:= 1, not Has(init)],
    [refuse(Part, io_lib:format("~s takes ~w arguments, at most ~w can be given", [Part, Takes(Part), Most]),
            too_many(Part, proplists:get_value(Part, Hooks)))
     || {Part, Most} <- [{init, 0}, {init_runner, 1}, {done, 1}], Takes(Part) > Most],
    RunnerArity > 2 andalso
        refuse(runner, io_lib:format("runner/~w cannot be called: a runner takes at most state and previous result",
                                     [RunnerArity]), {runner, RunnerArity, not_supported}),
    RunnerArity > 0 andalso not Has(init_runner) andalso
        refuse(runner, io_lib:format("runner/~w requires init_runner function defined", [RunnerArity]),
               {runner, RunnerArity, requires, init_runner}),
    ok.

too_many(init, #{hook := {local, Name, Arity}}) -> {init, Name, Arity};
too_many(Part, #{hook := {local, Name, Arity}}) -> {Part, Arity, Name};
too_many(Part, #{hook := Hook}) -> {Part, takes(Hook), not_supported}.

takes({local, _, Arity}) -> Arity;
takes({'fun', Fun}) -> element(2, erlang:fun_info(Fun, arity));
takes(_) -> 0.

-spec refuse(atom(), iodata(), term()) -> no_return().
refuse(Part, Message, Reason) ->
    throw({code, #{stage => compile, class => signature, part => Part, msg => lists:flatten(Message),
                   reason => {generate, Reason}}}).

%% Makes errors and stack traces name the part, with line numbers of the user's own text.
in_file(Part, Forms) ->
    [{attribute, 1, file, {atom_to_list(Part), 1}} | Forms].

compile(#{forms := Forms, exports := Exports, imports := Imports} = Generated, Module) ->
    All = [{attribute, 1, module, Module}, {attribute, 1, export, Exports} | Forms],
    case compile:forms(All, [binary, return_errors]) of
        {ok, Module, Binary} -> (maps:without([forms, exports, imports], Generated))#{binary => Binary};
        {ok, Module, Binary, _} -> (maps:without([forms, exports, imports], Generated))#{binary => Binary};
        {error, Errors, Warnings} ->
            throw({code, (with_names(first(Errors), Imports))#{reason => {compile, Errors, Warnings}}})
    end.

%% Adds the names that the user's files export to the message about an undefined one.
with_names(#{is_undefined := true, msg := Message} = Error, [_ | _] = Imports) ->
    Names = [["; '", File, "' exports ", listed(Functions)] || {File, _, Functions} <- Imports],
    Error#{msg := lists:flatten([Message | Names])};
with_names(Error, _) ->
    Error.

%% Compiles a file of the user. Throws errors.
-spec compile_file(file:name()) -> {module(), binary(), file:name()}.
compile_file(File) ->
    case compile:file(File, [binary, return_errors]) of
        {ok, Module, Binary} -> {Module, Binary, File};
        {ok, Module, Binary, _} -> {Module, Binary, File};
        {error, Errors, Warnings} ->
            #{msg := Message} = Error = first(Errors),
            Place = io_lib:format("~ts:~w: ", [filename:basename(File), maps:get(line, Error, 1)]),
            throw({code, (maps:without([part, line], Error))#{msg := lists:flatten([Place, Message]),
                                                              reason => {compile, Errors, Warnings}}})
    end.

first([{_, []} | Rest]) -> first(Rest);
first([{File, [{Location, Module, What} | _]} | _]) ->
    Error = #{stage => compile, class => compile, msg => lists:flatten(Module:format_error(What)),
              part => list_to_atom(File),
              is_undefined => is_tuple(What) andalso lists:member(element(1, What), [undefined_function, unbound_var])},
    case Location of
        {Line, _} -> Error#{line => Line};
        Line when is_integer(Line) -> Error#{line => Line};
        none -> Error
    end;
first([{File, [{Module, What} | _]} | Rest]) ->
    first([{File, [{none, Module, What}]} | Rest]).
