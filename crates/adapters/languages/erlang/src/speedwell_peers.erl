%% Other nodes: a cluster of peers on this machine for code that needs one, an existing node, and a fresh node
%% for code that is measured in isolation. None of them outlives this node. Start reading at place/2.
-module(speedwell_peers).

-export([place/2, stop/0, isolated/3, start/2, lend/2]).
-export([attend/1]).

%% Modules that a job needs on a node that has none of ours.
-define(MODULES, [speedwell_job, speedwell_worker, speedwell_histogram, speedwell_code, speedwell_empty, speedwell_gauges]).
%% A virtual machine starts within a second; a crowded machine takes longer.
-define(PATIENCE_MS, 20000).

%% Returns the node on which a job is executed. `nodes`: first connects this many nodes, including this one.
%% `node` and `cookie`: a running node, onto which missing modules are loaded. Throws {refused, Message}.
-spec place(#{binary() => binary()}, [file:name()]) -> node().
place(#{<<"node">> := Name} = Fields, _Paths) ->
    Node = binary_to_atom(Name, utf8),
    distributed(name_like(Node)),
    case maps:find(<<"cookie">>, Fields) of
        {ok, Cookie} -> erlang:set_cookie(Node, binary_to_atom(Cookie, utf8));
        error -> [erlang:set_cookie(Node, Cookie) || Cookie <- cookie_of_user()]
    end,
    %% Hidden, so that the node's cluster does not treat this node as a member.
    net_kernel:hidden_connect_node(Node) =:= true
        orelse throw({refused, ["cannot connect to the node '", Name, "'" | unreachable(Node, maps:is_key(<<"cookie">>, Fields))]}),
    lend(Node, [code:get_object_code(Module) || Module <- ?MODULES]),
    Node;
place(#{<<"nodes">> := Text}, Paths) ->
    try binary_to_integer(Text) of
        Count when Count > 0 -> start(Count - 1, Paths), node();
        _ -> throw({refused, "'nodes' must be at least 1"})
    catch
        error:badarg -> throw({refused, ["cannot parse 'nodes': expected a number, found '", Text, "'"]})
    end;
place(_, _) ->
    node().

%% Ensures that this many peers are connected with this node and with each other.
-spec start(non_neg_integer(), [file:name()]) -> [node()].
start(Count, Paths) ->
    distributed({speedwell_epmd:free_name(), "127.0.0.1", longnames}),
    Known = [Peer || {peer, Peer} <- kept()],
    Ours = [filename:dirname(code:which(?MODULE)) | Paths],
    New = [begun(Ours) || _ <- lists:seq(length(Known) + 1, Count)],
    [connected(Peer, erlang:monotonic_time(millisecond) + ?PATIENCE_MS) || Peer <- New],
    All = Known ++ New,
    [true = rpc:call(Peer, net_kernel, connect_node, [Other]) || Peer <- New, Other <- All, Other =/= Peer],
    All.

begun(Paths) ->
    Name = speedwell_epmd:free_name() ++ "@127.0.0.1",
    Arguments = ["-noshell", "-noinput", "-boot", "no_dot_erlang", "-name", Name, "-setcookie", atom_to_list(erlang:get_cookie()),
                 "-start_epmd", "false", "-epmd_module", "speedwell_epmd",
                 "-kernel", "inet_dist_use_interface", "{127,0,0,1}", "-pa" | Paths]
                ++ ["-run", atom_to_list(?MODULE), "attend", atom_to_list(node())],
    Peer = list_to_atom(Name),
    keep({peer, Peer}, fun() ->
        %% The peer inherits this node's output.
        open_port({spawn_executable, filename:join([code:root_dir(), "bin", "erl"])}, [{args, Arguments}, nouse_stdio])
    end),
    Peer.

%% Runs in a peer: lives as long as the node that started it.
-spec attend([string()]) -> pid().
attend([Name]) ->
    spawn(fun() ->
        Node = list_to_atom(Name),
        net_kernel:connect_node(Node) =:= true orelse halt(1),
        monitor_node(Node, true),
        receive {nodedown, Node} -> halt(0) end
    end).

connected(Peer, Deadline) ->
    case lists:member(Peer, nodes()) of
        true -> ok;
        false ->
            erlang:monotonic_time(millisecond) > Deadline
                andalso throw({refused, ["the node '", atom_to_list(Peer), "' did not start"]}),
            timer:sleep(10),
            connected(Peer, Deadline)
    end.

%% The default cookie of the user's nodes.
cookie_of_user() ->
    Folders = [[Home] || Home <- [os:getenv("HOME")], Home =/= false]
              ++ [[Config, "erlang"] || Config <- [os:getenv("XDG_CONFIG_HOME")], Config =/= false],
    Files = [filename:join(Folder ++ [".erlang.cookie"]) || Folder <- Folders],
    lists:sublist([list_to_atom(string:trim(binary_to_list(Text))) || File <- Files, {ok, Text} <- [file:read_file(File)]], 1).

%% A node that runs but refuses the connection usually has another cookie.
unreachable(Node, HasCookie) ->
    [Name, Host] = string:split(atom_to_list(Node), "@"),
    case catch speedwell_epmd:listening(Name, Host) of
        {ok, _} when HasCookie -> [": it refuses the connection\nhint: is '--node-cookie' its erlang:get_cookie()?"];
        {ok, _} -> [": it refuses the connection\nhint: give its cookie with '--node-cookie'"];
        {error, address} -> [": the host '", Host, "' cannot be resolved"];
        {error, epmd} -> [": no Erlang node is registered on ", Host, "\nhint: start it with -sname or -name"];
        {error, {unknown, []}} -> [": no Erlang node is registered on ", Host, "\nhint: start it with -sname or -name"];
        {error, {unknown, Others}} ->
            [": no node of this name runs on ", Host, "\nhint: running there: ", lists:join(", ", Others)];
        _ -> []
    end.

%% A node connects only to nodes with the same kind of names.
name_like(Node) ->
    [_, Host] = case string:split(atom_to_list(Node), "@") of
        [_, _] = Both -> Both;
        _ -> throw({refused, ["'", atom_to_list(Node), "' is not the name of a node (NAME@HOST)"]})
    end,
    {ok, Own} = inet:gethostname(),
    case lists:member($., Host) of
        true -> {speedwell_epmd:free_name(), "127.0.0.1", longnames};
        false -> {speedwell_epmd:free_name(), Own, shortnames}
    end.

distributed({Name, Host, Kind}) ->
    case is_alive() of
        true -> ok;
        false ->
            %% Accept no connections from other machines.
            application:set_env(kernel, inet_dist_use_interface, {127, 0, 0, 1}),
            case net_kernel:start([list_to_atom(Name ++ "@" ++ Host), Kind]) of
                {ok, _} -> erlang:set_cookie(node(), cookie());
                {error, Reason} -> throw({refused, io_lib:format("this node cannot be distributed: ~0tp", [Reason])})
            end
    end.

cookie() ->
    list_to_atom([$a + (Byte rem 26) || <<Byte>> <= rand_bytes()]).

rand_bytes() ->
    case file:open("/dev/urandom", [read, raw, binary]) of
        {ok, File} ->
            {ok, Bytes} = file:read(File, 20),
            file:close(File),
            Bytes;
        {error, _} -> << <<(rand:uniform(256) - 1)>> || _ <- lists:seq(1, 20) >>
    end.

%% Loads those of the modules that the node lacks; stop/0 removes them again.
-spec lend(node(), [{module(), binary(), file:name()}]) -> ok | true.
lend(Node, Modules) ->
    Lacking = [Object || {Module, _, _} = Object <- Modules, rpc:call(Node, code, is_loaded, [Module]) =:= false,
                         rpc:call(Node, code, which, [Module]) =:= non_existing],
    [{module, Module} = rpc:call(Node, code, load_binary, [Module, File, Binary]) || {Module, Binary, File} <- Lacking],
    Lacking =:= [] orelse keep({lent, Node, [Module || {Module, _, _} <- Lacking]}, fun() -> ok end).

%% A process, which owns the ports of the peers, remembers what has to be undone.
keep(What, Begin) ->
    Keeper = case whereis(?MODULE) of
        undefined ->
            New = spawn(fun() -> keeping([]) end),
            register(?MODULE, New),
            New;
        Pid -> Pid
    end,
    Ref = make_ref(),
    Keeper ! {keep, self(), Ref, What, Begin},
    receive {Ref, kept} -> ok end.

kept() ->
    case whereis(?MODULE) of
        undefined -> [];
        Keeper ->
            Ref = make_ref(),
            Keeper ! {kept, self(), Ref},
            receive {Ref, All} -> All end
    end.

keeping(All) ->
    receive
        {keep, From, Ref, What, Begin} ->
            Begin(),
            From ! {Ref, kept},
            keeping([What | All]);
        {kept, From, Ref} ->
            From ! {Ref, All},
            keeping(All);
        _ ->
            keeping(All)
    end.

%% Ends all peers, and removes lent modules.
-spec stop() -> ok.
stop() ->
    All = kept(),
    [rpc:call(Node, code, Action, [Module], 1000) || {lent, Node, Modules} <- All, Module <- Modules,
                                                    Action <- [purge, delete, purge]],
    [rpc:cast(Peer, erlang, halt, []) || {peer, Peer} <- All],
    gone([Peer || {peer, Peer} <- All], erlang:monotonic_time(millisecond) + 2000),
    forget().

%% A later start creates new peers.
forget() ->
    case whereis(?MODULE) of
        undefined -> ok;
        Keeper ->
            Monitor = erlang:monitor(process, Keeper),
            exit(Keeper, kill),
            receive {'DOWN', Monitor, process, Keeper, _} -> ok end
    end.

gone(Peers, Deadline) ->
    case [Peer || Peer <- Peers, lists:member(Peer, nodes())] of
        [] -> ok;
        Left -> erlang:monotonic_time(millisecond) < Deadline andalso begin timer:sleep(10), gone(Left, Deadline) end, ok
    end.

%% Calls a function in a fresh node, which is not distributed. Needs OTP 25.
-spec isolated(module(), atom(), list()) -> term().
isolated(Module, Function, Arguments) ->
    code:ensure_loaded(peer) =:= {module, peer} orelse erlang:error({not_supported, isolation}),
    {ok, Peer, _} = peer:start_link(#{connection => standard_io}),
    try
        ok = peer:call(Peer, code, add_pathsa, [lists:reverse(code:get_path())]),
        peer:call(Peer, Module, Function, Arguments, infinity)
    after
        peer:stop(Peer)
    end.
