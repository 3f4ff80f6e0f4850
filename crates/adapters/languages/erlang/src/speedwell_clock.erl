%% The processor time of the schedulers, which is that of the code they execute: the kernel reports it for
%% each thread. The virtual machine's own figures have a resolution of a millisecond. Start at schedulers/0.
-module(speedwell_clock).

-export([schedulers/0, now_ns/1]).

%% The files that report it; none where the kernel does not.
-spec schedulers() -> [file:filename()].
schedulers() ->
    case file:list_dir("/proc/self/task") of
        {ok, Threads} ->
            Files = [filename:join(["/proc/self/task", Thread, "schedstat"]) || Thread <- Threads, is_scheduler(Thread)],
            [File || File <- Files, is_integer(used_ns(File))];
        _ -> []
    end.

%% Dirty CPU schedulers count, because they collect large heaps; dirty IO schedulers only wait for files.
%% Threads are named differently since OTP 26.
is_scheduler(Thread) ->
    case file:read_file(filename:join(["/proc/self/task", Thread, "comm"])) of
        {ok, Name} -> binary:match(Name, [<<"_scheduler">>, <<"_dirty_cpu">>, <<"erts_sched_">>, <<"erts_dcpus_">>]) =/= nomatch;
        _ -> false
    end.

%% Nanoseconds now. A thread's time is brought up to date when it goes to sleep, so this sleeps a little.
-spec now_ns([file:filename()]) -> non_neg_integer().
now_ns(Files) ->
    receive after 1 -> ok end,
    lists:sum([used_ns(File) || File <- Files]).

used_ns(File) ->
    case file:open(File, [read, raw, binary]) of
        {ok, Open} ->
            Read = file:read(Open, 64),
            ok = file:close(Open),
            case Read of
                {ok, Text} -> binary_to_integer(hd(binary:split(Text, <<" ">>)));
                _ -> undefined
            end;
        _ -> undefined
    end.
