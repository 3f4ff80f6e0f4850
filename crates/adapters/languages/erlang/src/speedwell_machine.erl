%% Describes this virtual machine: version, build, clock, and what may distort results.
-module(speedwell_machine).

-export([version/0, system/0, flavor/0, build/0, clock_resolution_ns/0, warnings/0, info/0]).

-spec version() -> binary().
version() ->
    Release = erlang:system_info(otp_release),
    case file:read_file(filename:join([code:root_dir(), "releases", Release, "OTP_VERSION"])) of
        {ok, Text} -> hd(binary:split(Text, <<"\n">>));
        {error, _} -> list_to_binary(Release)
    end.

%% The virtual machine's name for itself.
-spec system() -> string().
system() ->
    string:trim(erlang:system_info(system_version)).

%% `emu` is the interpreter.
-spec flavor() -> jit | interp.
flavor() ->
    case emu_flavor() of jit -> jit; _ -> interp end.

emu_flavor() ->
    try erlang:system_info(emu_flavor) catch error:badarg -> emu end.

-spec build() -> opt | debug.
build() ->
    case erlang:system_info(emu_type) of opt -> opt; _ -> debug end.

%% The smallest step observed between readings of the clock.
-spec clock_resolution_ns() -> pos_integer().
clock_resolution_ns() ->
    Steps = [erlang:convert_time_unit(B - A, native, nanosecond)
             || _ <- lists:seq(1, 100), {A, B} <- [{erlang:monotonic_time(), erlang:monotonic_time()}], B > A],
    lists:min([erlang:convert_time_unit(1, second, nanosecond) div erlang:convert_time_unit(1, second, native) + 1000 | Steps]).

-spec warnings() -> [string()].
warnings() ->
    Trace = erlang:system_info(dynamic_trace),
    Type = erlang:system_info(emu_type),
    Flavor = emu_flavor(),
    [io_lib:format("The virtual machine was built with probes (~s), which slow it down.", [Trace]) || Trace =/= none]
    ++ [io_lib:format("The virtual machine is a ~s build: all times are inflated.", [Type]) || Type =/= opt]
    ++ ["The virtual machine interprets code: times differ from those with a JIT compiler." || Flavor =/= jit].

%% The machine's part of a full report in the shell.
-spec info() -> map().
info() ->
    Known = #{os => os:type(), system_version => system(),
              emu_type => erlang:system_info(emu_type), emu_flavor => emu_flavor(),
              dynamic_trace => erlang:system_info(dynamic_trace)},
    case cpu() of
        unknown -> Known;
        Cpu -> Known#{cpu => Cpu}
    end.

cpu() ->
    case file:read_file("/proc/cpuinfo") of
        {ok, Text} ->
            case re:run(Text, "^model name\\s*:\\s*(.*)$", [multiline, {capture, all_but_first, list}]) of
                {match, [Model]} -> string:trim(Model);
                nomatch -> unknown
            end;
        {error, _} -> unknown
    end.
