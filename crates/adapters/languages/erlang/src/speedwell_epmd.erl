%% Resolves node names without a daemon: our node names end in the port that the node listens on
%% (speedwell_40123@127.0.0.1), so the name determines the port. All other names are looked up at the usual
%% daemon. Selected by `-epmd_module`; the documentation of Erlang's kernel lists the required exports.
-module(speedwell_epmd).

-export([start_link/0, register_node/2, register_node/3, listen_port_please/2, address_please/3,
         port_please/2, port_please/3, names/1]).
-export([free_name/0, listening/2]).

%% The version of the handshake since OTP 23.
-define(VERSION, 6).

%% Returns a name whose port is currently free.
-spec free_name() -> string().
free_name() ->
    {ok, Socket} = gen_tcp:listen(0, [{ip, {127, 0, 0, 1}}]),
    {ok, Port} = inet:port(Socket),
    gen_tcp:close(Socket),
    "speedwell_" ++ integer_to_list(Port).

%% Returns the port that a node is registered with; otherwise what is missing: the host, its daemon, or that name
%% among the others.
-spec listening(string(), string()) -> {ok, inet:port_number()} | {error, address | epmd | {unknown, [string()]}}.
listening(Name, Host) ->
    case {port(Name), inet:getaddr(Host, inet)} of
        {_, {error, _}} -> {error, address};
        {none, {ok, Address}} ->
            case erl_epmd:names(Address) of
                {ok, Known} ->
                    case lists:keyfind(Name, 1, Known) of
                        {_, Port} -> {ok, Port};
                        false -> {error, {unknown, [Other || {Other, _} <- Known]}}
                    end;
                {error, _} -> {error, epmd}
            end;
        {Port, {ok, Address}} ->
            %% Such a name is not registered anywhere: just try to connect.
            case gen_tcp:connect(Address, Port, [], 5000) of
                {error, econnrefused} -> {error, {unknown, []}};
                {ok, Socket} -> gen_tcp:close(Socket), {ok, Port};
                {error, _} -> {ok, Port}
            end
    end.

start_link() -> ignore.

register_node(Name, Port) -> register_node(Name, Port, inet).

%% The creation distinguishes successive nodes with the same name.
register_node(_Name, _Port, _Family) -> {ok, rand:uniform(16#ffff) + 3}.

listen_port_please(Name, _Host) ->
    case port(Name) of
        none -> {ok, 0};
        Port -> {ok, Port}
    end.

address_please(Name, Host, Family) ->
    case port(Name) of
        none -> erl_epmd:address_please(Name, Host, Family);
        Port ->
            case inet:getaddr(Host, Family) of
                {ok, Address} -> {ok, Address, Port, ?VERSION};
                Error -> Error
            end
    end.

port_please(Name, Host) -> port_please(Name, Host, infinity).

port_please(Name, Host, Timeout) ->
    case port(Name) of
        none -> erl_epmd:port_please(Name, Host, Timeout);
        Port -> {port, Port, ?VERSION}
    end.

names(Host) -> erl_epmd:names(Host).

port(Name) when is_atom(Name) -> port(atom_to_list(Name));
port("speedwell_" ++ Digits) ->
    try list_to_integer(Digits) catch error:badarg -> none end;
port(_) -> none.
