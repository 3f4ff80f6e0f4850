%% Implements the commands of the protocol. Each is executed in its own process, which sends events to the
%% harness and returns the remaining jobs. Start reading at perform/4.
-module(speedwell_commands).

-export([perform/4]).

-type jobs() :: #{binary() => pid()}.

-record(context, {main :: pid(), id :: binary(), fields :: map(), jobs :: jobs()}).

%% Executes a command. Reports all results and errors as events.
-spec perform(binary(), #{binary() => binary()}, jobs(), pid()) -> jobs().
perform(Verb, Fields, Jobs, Main) ->
    Context = #context{main = Main, id = maps:get(<<"id">>, Fields, <<>>), fields = Fields, jobs = Jobs},
    try command(Verb, Context)
    catch
        throw:{refused, Message} -> protocol_error(Context, Message);
        throw:{code, Error} ->
            event(Context, error, job(Context) ++ speedwell_error:of_code(Error)),
            Jobs;
        error:Reason:Stack ->
            %% An error in the harness itself: user code fails in its own processes.
            protocol_error(Context, io_lib:format("~0tp in ~0tp", [Reason, Stack]));
        %% The job ended during a call.
        exit:{Reason, {gen_server, call, _}} -> lost(Context, speedwell_job:failure(Reason))
    end.

lost(Context = #context{jobs = Jobs, fields = Fields}, Failure) ->
    [event(Context, error, job(Context) ++ speedwell_error:of_failure(Each)) || Each <- speedwell_error:all(Failure)],
    maps:remove(maps:get(<<"job">>, Fields, <<>>), Jobs).

command(<<"hello">>, Context) -> hello(Context);
command(<<"load">>, Context) -> load(Context);
command(<<"workers">>, Context) -> workers(Context);
command(<<"run">>, Context) -> speedwell_report:run(Context#context.fields, Context#context.jobs, sender(Context));
command(<<"calibrate">>, Context) -> calibrate(Context);
command(<<"unload">>, Context) -> unload(Context);
command(Verb, Context) -> protocol_error(Context, ["unknown verb '", Verb, "'"]).

hello(Context = #context{fields = Fields, jobs = Jobs}) ->
    case maps:get(<<"proto">>, Fields, <<>>) of
        <<"1">> ->
            Warnings = speedwell_machine:warnings(),
            Warned = [{"warn" ++ integer_to_list(N), W} || {N, W} <- lists:zip(lists:seq(0, length(Warnings) - 1), Warnings)],
            event(Context, ready, [
                {proto, 1}, {lang, erlang}, {version, speedwell_machine:version()},
                {flavor, speedwell_machine:flavor()}, {build, speedwell_machine:build()},
                {system, speedwell_machine:system()}, {dynamic_trace, erlang:system_info(dynamic_trace)},
                {cpus, erlang:system_info(logical_processors_available)}, {clock, "erlang:monotonic_time"},
                {clock_res_ns, speedwell_machine:clock_resolution_ns()},
                {caps, {list, [continuous, timed, series, workers, monitor, parallel]}},
                {gauges, {list, [[atom_to_list(Name), ":", Unit] || {Name, Unit} <- speedwell_gauges:schema()]}}
                | Warned]),
            Jobs;
        Other ->
            event(Context, error, [{stage, protocol}, {class, version}, {fatal, 1},
                                   {msg, ["unsupported protocol version '", Other, "': expected 1"]}]),
            timer:sleep(50),
            erlang:halt(0)
    end.

load(Context = #context{fields = Fields, jobs = Jobs, main = Main}) ->
    maps:get(<<"form">>, Fields, <<"text">>) =:= <<"text">> orelse throw({refused, "'form' must be 'text'"}),
    Name = needed(<<"job">>, Context),
    is_map_key(Name, Jobs) andalso throw({refused, ["job '", Name, "' is already loaded"]}),
    Language = language(maps:get(<<"lang">>, Fields, <<"erlang">>)),
    {Files, Paths} = lists:partition(fun is_source/1, paths(Fields, 0)),
    add_paths(Paths),
    Code = maps:from_list([{Part, maps:get(atom_to_binary(Part, utf8), Fields)}
                           || Part <- [runner, init, init_runner, done], is_map_key(atom_to_binary(Part, utf8), Fields)]),
    is_map_key(runner, Code) orelse throw({refused, "load needs 'runner'"}),
    Node = speedwell_peers:place(Fields, Paths),
    Imports = [loaded_module(File, Node) || File <- Files],
    Ready = #{form := Form, arity := Arity, source := Source} =
        prepared(Code#{lang => Language, imports => Imports}, Name, Paths),
    case speedwell_job:start(Ready, #{parent => Main, node => Node}) of
        {ok, Job} ->
            %% Nothing is known of modules that other compilers made.
            Folds = [{folds, 0} || not maps:get(folds, Ready, true)],
            event(Context, loaded, [{job, Name}, {form, Form}, {arity, Arity}, {source, Source} | Folds]),
            Jobs#{Name => Job};
        {error, Reason} ->
            event(Context, error, [{job, Name} | speedwell_error:of_failure(speedwell_job:failure(Reason))]),
            Jobs
    end.

prepared(Code, Name, Paths) ->
    case speedwell_cache:prepare(Code, Name, Paths) of
        {ok, Ready} -> Ready;
        {error, Error} -> throw({code, Error})
    end.

language(<<"erlang">>) -> erlang;
language(<<"elixir">>) -> elixir;
language(Other) -> throw({refused, ["unsupported language '", Other, "': expected 'erlang' or 'elixir'"]}).

paths(Fields, N) ->
    case maps:find(iolist_to_binary(["path", integer_to_list(N)]), Fields) of
        {ok, Path} -> [unicode:characters_to_list(Path) | paths(Fields, N + 1)];
        error -> []
    end.

is_source(Path) ->
    filename:extension(Path) =:= ".erl" andalso filelib:is_regular(Path).

%% Compiles and loads a module whose exports the code may call without its name.
loaded_module(File, Node) ->
    Object = {Module, Binary, _} = speedwell_code:compile_file(File),
    {ok, {Module, Md5}} = beam_lib:md5(Binary),
    code:is_loaded(Module) =/= false andalso Module:module_info(md5) =:= Md5
        orelse code:load_binary(Module, File, Binary) =:= {module, Module}
        orelse throw({refused, ["the module of '", File, "' cannot be loaded: is it named like one of Erlang's?"]}),
    [speedwell_peers:lend(Other, [Object]) || Other <- lists:usort([Node | nodes()]), Other =/= node()],
    {filename:basename(File), Module, Module:module_info(exports) -- [{module_info, 0}, {module_info, 1}]}.

%% In front of the code path, in this order.
add_paths(Paths) ->
    [case code:add_patha(Path) of
         true -> ok;
         {error, _} -> throw({refused, ["'", Path, "' is not a folder"]})
     end || Path <- lists:reverse(Paths)].

workers(Context = #context{jobs = Jobs}) ->
    Begin = erlang:monotonic_time(millisecond),
    Count = number(<<"n">>, Context),
    ok = speedwell_job:set_workers(known(Context), Count),
    event(Context, workers, job(Context) ++ [{n, Count}, {ms, erlang:monotonic_time(millisecond) - Begin}]),
    Jobs.

calibrate(Context = #context{jobs = Jobs}) ->
    Job = known(Context),
    Empty = rpc:call(node(Job), speedwell_empty, picoseconds, [speedwell_job:ready(Job), number(<<"target_ns">>, Context)]),
    event(Context, calibrated, job(Context) ++ [{empty_ps, Empty}]),
    Jobs.

unload(Context = #context{jobs = Jobs}) ->
    case speedwell_job:close(known(Context)) of
        none -> event(Context, unloaded, job(Context));
        Failure -> event(Context, error, job(Context) ++ speedwell_error:of_failure(Failure))
    end,
    maps:remove(needed(<<"job">>, Context), Jobs).

known(Context = #context{jobs = Jobs}) ->
    Name = needed(<<"job">>, Context),
    case Jobs of
        #{Name := Job} -> Job;
        _ -> throw({refused, ["unknown job '", Name, "'"]})
    end.

needed(Key, #context{fields = Fields}) ->
    case Fields of
        #{Key := Value} -> Value;
        _ -> throw({refused, ["'", Key, "' is missing"]})
    end.

number(Key, Context) ->
    Text = needed(Key, Context),
    try binary_to_integer(Text) of
        Number when Number >= 0 -> Number;
        _ -> throw({refused, ["'", Key, "' must not be negative"]})
    catch
        error:badarg -> throw({refused, ["cannot parse '", Key, "': expected a number, found '", Text, "'"]})
    end.

job(#context{fields = Fields}) ->
    [{job, Name} || {ok, Name} <- [maps:find(<<"job">>, Fields)]].

protocol_error(Context = #context{jobs = Jobs}, Message) ->
    event(Context, error, job(Context) ++ [{stage, protocol}, {class, protocol}, {msg, Message}, {fatal, 0}]),
    Jobs.

event(Context, Verb, Fields) ->
    (sender(Context))(Verb, Fields, []).

%% Returns a function that sends events of this command.
sender(#context{main = Main, id = Id}) ->
    fun(Verb, Fields, Long) ->
        Main ! {event, speedwell_wire:lines(Verb, [{id, Id} | Fields], Long)},
        ok
    end.
