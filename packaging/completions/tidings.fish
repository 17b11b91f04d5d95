# Print an optspec for argparse to handle cmd's options that are independent of any subcommand.
function __fish_tidings_global_optspecs
    string join \n app= home= json h/help V/version
end

function __fish_tidings_needs_command
    # Figure out if the current invocation already has a command.
    set -l cmd (commandline -opc)
    set -e cmd[1]
    argparse -s (__fish_tidings_global_optspecs) -- $cmd 2>/dev/null
    or return
    if set -q argv[1]
        # Also print the command, so this can be used to figure out what it is.
        echo $argv[1]
        return 1
    end
    return 0
end

function __fish_tidings_using_subcommand
    set -l cmd (__fish_tidings_needs_command)
    test -z "$cmd"
    and return 1
    contains -- $cmd[1] $argv
end

complete -c tidings -n "__fish_tidings_needs_command" -l app -d 'The app whose data is meant' -r
complete -c tidings -n "__fish_tidings_needs_command" -l home -d 'The directory of the daemon: its store, keys, configuration and socket. Without it: the directories of your desktop' -r -F
complete -c tidings -n "__fish_tidings_needs_command" -l json -d 'Print JSON, one value per line'
complete -c tidings -n "__fish_tidings_needs_command" -s h -l help -d 'Print help'
complete -c tidings -n "__fish_tidings_needs_command" -s V -l version -d 'Print version'
complete -c tidings -n "__fish_tidings_needs_command" -f -a "demo" -d 'Show on this one computer how a row travels between two: a server, two devices, real data'
complete -c tidings -n "__fish_tidings_needs_command" -f -a "daemon" -d 'Run the daemon in the foreground: it keeps the rows and syncs them'
complete -c tidings -n "__fish_tidings_needs_command" -f -a "account" -d 'Start an account on a server'
complete -c tidings -n "__fish_tidings_needs_command" -f -a "login" -d 'Link this computer to your account: shows a code to type on a linked one'
complete -c tidings -n "__fish_tidings_needs_command" -f -a "devices" -d 'List the linked computers, link a new one by its code, unlink or name one'
complete -c tidings -n "__fish_tidings_needs_command" -f -a "recovery" -d 'Make a recovery kit to print'
complete -c tidings -n "__fish_tidings_needs_command" -f -a "recover" -d 'Come back into your account with its recovery kit when every computer is lost'
complete -c tidings -n "__fish_tidings_needs_command" -f -a "status" -d 'Say what is synced and what is not'
complete -c tidings -n "__fish_tidings_needs_command" -f -a "doctor" -d 'Check everything that sync depends on and say what to do'
complete -c tidings -n "__fish_tidings_needs_command" -f -a "apps" -d 'List the apps that have data here'
complete -c tidings -n "__fish_tidings_needs_command" -f -a "tables" -d 'List the tables of an app'
complete -c tidings -n "__fish_tidings_needs_command" -f -a "get" -d 'Show a row'
complete -c tidings -n "__fish_tidings_needs_command" -f -a "put" -d 'Create or replace a row'
complete -c tidings -n "__fish_tidings_needs_command" -f -a "patch" -d 'Change columns of a row'
complete -c tidings -n "__fish_tidings_needs_command" -f -a "delete" -d 'Delete a row'
complete -c tidings -n "__fish_tidings_needs_command" -f -a "query" -d 'List rows of a table'
complete -c tidings -n "__fish_tidings_needs_command" -f -a "watch" -d 'Print changes of a table as they happen, from this computer or another, until Ctrl-C'
complete -c tidings -n "__fish_tidings_needs_command" -f -a "import" -d 'Read rows from a JSON, NDJSON or CSV file into tables'
complete -c tidings -n "__fish_tidings_needs_command" -f -a "export" -d 'Write the rows of a table as JSON, NDJSON or CSV'
complete -c tidings -n "__fish_tidings_needs_command" -f -a "completions" -d 'Print a completion script for a shell'
complete -c tidings -n "__fish_tidings_needs_command" -f -a "man" -d 'Write the man pages into a directory'
complete -c tidings -n "__fish_tidings_needs_command" -f -a "tied" -d 'Run a program that ends when the process that started it does'
complete -c tidings -n "__fish_tidings_needs_command" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c tidings -n "__fish_tidings_using_subcommand demo" -l app -d 'The app whose data is meant' -r
complete -c tidings -n "__fish_tidings_using_subcommand demo" -l home -d 'The directory of the daemon: its store, keys, configuration and socket. Without it: the directories of your desktop' -r -F
complete -c tidings -n "__fish_tidings_using_subcommand demo" -l once -d 'End as soon as everything is verified'
complete -c tidings -n "__fish_tidings_using_subcommand demo" -l keep -d 'Keep the directory with stores, detailed logs and the recording, and say where it is'
complete -c tidings -n "__fish_tidings_using_subcommand demo" -l plant -d 'Write one row in clear text among the server\'s files: the search has to find it'
complete -c tidings -n "__fish_tidings_using_subcommand demo" -l json -d 'Print JSON, one value per line'
complete -c tidings -n "__fish_tidings_using_subcommand demo" -s h -l help -d 'Print help'
complete -c tidings -n "__fish_tidings_using_subcommand daemon" -l set -d 'Set one setting, such as api.drain=2s; may be given again' -r
complete -c tidings -n "__fish_tidings_using_subcommand daemon" -l log -d 'What is logged to standard error: error, warn, info, debug, trace, or a filter' -r
complete -c tidings -n "__fish_tidings_using_subcommand daemon" -l app -d 'The app whose data is meant' -r
complete -c tidings -n "__fish_tidings_using_subcommand daemon" -l home -d 'The directory of the daemon: its store, keys, configuration and socket. Without it: the directories of your desktop' -r -F
complete -c tidings -n "__fish_tidings_using_subcommand daemon" -l show-settings -d 'List all settings and stop'
complete -c tidings -n "__fish_tidings_using_subcommand daemon" -l json -d 'Print JSON, one value per line'
complete -c tidings -n "__fish_tidings_using_subcommand daemon" -s h -l help -d 'Print help'
complete -c tidings -n "__fish_tidings_using_subcommand account; and not __fish_seen_subcommand_from create show help" -l app -d 'The app whose data is meant' -r
complete -c tidings -n "__fish_tidings_using_subcommand account; and not __fish_seen_subcommand_from create show help" -l home -d 'The directory of the daemon: its store, keys, configuration and socket. Without it: the directories of your desktop' -r -F
complete -c tidings -n "__fish_tidings_using_subcommand account; and not __fish_seen_subcommand_from create show help" -l json -d 'Print JSON, one value per line'
complete -c tidings -n "__fish_tidings_using_subcommand account; and not __fish_seen_subcommand_from create show help" -s h -l help -d 'Print help'
complete -c tidings -n "__fish_tidings_using_subcommand account; and not __fish_seen_subcommand_from create show help" -f -a "create" -d 'Start an account, with this computer as its first'
complete -c tidings -n "__fish_tidings_using_subcommand account; and not __fish_seen_subcommand_from create show help" -f -a "show" -d 'Show this computer\'s account and server'
complete -c tidings -n "__fish_tidings_using_subcommand account; and not __fish_seen_subcommand_from create show help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c tidings -n "__fish_tidings_using_subcommand account; and __fish_seen_subcommand_from create" -l invite -d 'The invite from whoever runs the server; it works once' -r
complete -c tidings -n "__fish_tidings_using_subcommand account; and __fish_seen_subcommand_from create" -l ca -d 'The certificate authority that vouches for the server, as a PEM file; without it, those of the system do' -r -F
complete -c tidings -n "__fish_tidings_using_subcommand account; and __fish_seen_subcommand_from create" -l name -d 'What the other computers call this one; without it, its host name' -r
complete -c tidings -n "__fish_tidings_using_subcommand account; and __fish_seen_subcommand_from create" -l keystore -d 'Where the keys lie; without it, in the desktop\'s keychain if it answers' -r -f -a "keychain\t''
file\t''"
complete -c tidings -n "__fish_tidings_using_subcommand account; and __fish_seen_subcommand_from create" -l app -d 'The app whose data is meant' -r
complete -c tidings -n "__fish_tidings_using_subcommand account; and __fish_seen_subcommand_from create" -l home -d 'The directory of the daemon: its store, keys, configuration and socket. Without it: the directories of your desktop' -r -F
complete -c tidings -n "__fish_tidings_using_subcommand account; and __fish_seen_subcommand_from create" -l json -d 'Print JSON, one value per line'
complete -c tidings -n "__fish_tidings_using_subcommand account; and __fish_seen_subcommand_from create" -s h -l help -d 'Print help'
complete -c tidings -n "__fish_tidings_using_subcommand account; and __fish_seen_subcommand_from show" -l app -d 'The app whose data is meant' -r
complete -c tidings -n "__fish_tidings_using_subcommand account; and __fish_seen_subcommand_from show" -l home -d 'The directory of the daemon: its store, keys, configuration and socket. Without it: the directories of your desktop' -r -F
complete -c tidings -n "__fish_tidings_using_subcommand account; and __fish_seen_subcommand_from show" -l json -d 'Print JSON, one value per line'
complete -c tidings -n "__fish_tidings_using_subcommand account; and __fish_seen_subcommand_from show" -s h -l help -d 'Print help'
complete -c tidings -n "__fish_tidings_using_subcommand account; and __fish_seen_subcommand_from help" -f -a "create" -d 'Start an account, with this computer as its first'
complete -c tidings -n "__fish_tidings_using_subcommand account; and __fish_seen_subcommand_from help" -f -a "show" -d 'Show this computer\'s account and server'
complete -c tidings -n "__fish_tidings_using_subcommand account; and __fish_seen_subcommand_from help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c tidings -n "__fish_tidings_using_subcommand login" -l ca -d 'The certificate authority that vouches for the server, as a PEM file; without it, those of the system do' -r -F
complete -c tidings -n "__fish_tidings_using_subcommand login" -l name -d 'What the other computers call this one; without it, its host name' -r
complete -c tidings -n "__fish_tidings_using_subcommand login" -l keystore -d 'Where the keys lie; without it, in the desktop\'s keychain if it answers' -r -f -a "keychain\t''
file\t''"
complete -c tidings -n "__fish_tidings_using_subcommand login" -l app -d 'The app whose data is meant' -r
complete -c tidings -n "__fish_tidings_using_subcommand login" -l home -d 'The directory of the daemon: its store, keys, configuration and socket. Without it: the directories of your desktop' -r -F
complete -c tidings -n "__fish_tidings_using_subcommand login" -l json -d 'Print JSON, one value per line'
complete -c tidings -n "__fish_tidings_using_subcommand login" -s h -l help -d 'Print help'
complete -c tidings -n "__fish_tidings_using_subcommand devices; and not __fish_seen_subcommand_from list add revoke rename help" -l app -d 'The app whose data is meant' -r
complete -c tidings -n "__fish_tidings_using_subcommand devices; and not __fish_seen_subcommand_from list add revoke rename help" -l home -d 'The directory of the daemon: its store, keys, configuration and socket. Without it: the directories of your desktop' -r -F
complete -c tidings -n "__fish_tidings_using_subcommand devices; and not __fish_seen_subcommand_from list add revoke rename help" -l json -d 'Print JSON, one value per line'
complete -c tidings -n "__fish_tidings_using_subcommand devices; and not __fish_seen_subcommand_from list add revoke rename help" -s h -l help -d 'Print help'
complete -c tidings -n "__fish_tidings_using_subcommand devices; and not __fish_seen_subcommand_from list add revoke rename help" -f -a "list" -d 'List the computers of the account'
complete -c tidings -n "__fish_tidings_using_subcommand devices; and not __fish_seen_subcommand_from list add revoke rename help" -f -a "add" -d 'Link the computer that shows this code'
complete -c tidings -n "__fish_tidings_using_subcommand devices; and not __fish_seen_subcommand_from list add revoke rename help" -f -a "revoke" -d 'Unlink computers that are lost or not used any more: they can read nothing new from then on'
complete -c tidings -n "__fish_tidings_using_subcommand devices; and not __fish_seen_subcommand_from list add revoke rename help" -f -a "rename" -d 'Give a computer another name'
complete -c tidings -n "__fish_tidings_using_subcommand devices; and not __fish_seen_subcommand_from list add revoke rename help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c tidings -n "__fish_tidings_using_subcommand devices; and __fish_seen_subcommand_from list" -l app -d 'The app whose data is meant' -r
complete -c tidings -n "__fish_tidings_using_subcommand devices; and __fish_seen_subcommand_from list" -l home -d 'The directory of the daemon: its store, keys, configuration and socket. Without it: the directories of your desktop' -r -F
complete -c tidings -n "__fish_tidings_using_subcommand devices; and __fish_seen_subcommand_from list" -l json -d 'Print JSON, one value per line'
complete -c tidings -n "__fish_tidings_using_subcommand devices; and __fish_seen_subcommand_from list" -s h -l help -d 'Print help'
complete -c tidings -n "__fish_tidings_using_subcommand devices; and __fish_seen_subcommand_from add" -l app -d 'The app whose data is meant' -r
complete -c tidings -n "__fish_tidings_using_subcommand devices; and __fish_seen_subcommand_from add" -l home -d 'The directory of the daemon: its store, keys, configuration and socket. Without it: the directories of your desktop' -r -F
complete -c tidings -n "__fish_tidings_using_subcommand devices; and __fish_seen_subcommand_from add" -l json -d 'Print JSON, one value per line'
complete -c tidings -n "__fish_tidings_using_subcommand devices; and __fish_seen_subcommand_from add" -s h -l help -d 'Print help'
complete -c tidings -n "__fish_tidings_using_subcommand devices; and __fish_seen_subcommand_from revoke" -l app -d 'The app whose data is meant' -r
complete -c tidings -n "__fish_tidings_using_subcommand devices; and __fish_seen_subcommand_from revoke" -l home -d 'The directory of the daemon: its store, keys, configuration and socket. Without it: the directories of your desktop' -r -F
complete -c tidings -n "__fish_tidings_using_subcommand devices; and __fish_seen_subcommand_from revoke" -l json -d 'Print JSON, one value per line'
complete -c tidings -n "__fish_tidings_using_subcommand devices; and __fish_seen_subcommand_from revoke" -s h -l help -d 'Print help'
complete -c tidings -n "__fish_tidings_using_subcommand devices; and __fish_seen_subcommand_from rename" -l app -d 'The app whose data is meant' -r
complete -c tidings -n "__fish_tidings_using_subcommand devices; and __fish_seen_subcommand_from rename" -l home -d 'The directory of the daemon: its store, keys, configuration and socket. Without it: the directories of your desktop' -r -F
complete -c tidings -n "__fish_tidings_using_subcommand devices; and __fish_seen_subcommand_from rename" -l json -d 'Print JSON, one value per line'
complete -c tidings -n "__fish_tidings_using_subcommand devices; and __fish_seen_subcommand_from rename" -s h -l help -d 'Print help'
complete -c tidings -n "__fish_tidings_using_subcommand devices; and __fish_seen_subcommand_from help" -f -a "list" -d 'List the computers of the account'
complete -c tidings -n "__fish_tidings_using_subcommand devices; and __fish_seen_subcommand_from help" -f -a "add" -d 'Link the computer that shows this code'
complete -c tidings -n "__fish_tidings_using_subcommand devices; and __fish_seen_subcommand_from help" -f -a "revoke" -d 'Unlink computers that are lost or not used any more: they can read nothing new from then on'
complete -c tidings -n "__fish_tidings_using_subcommand devices; and __fish_seen_subcommand_from help" -f -a "rename" -d 'Give a computer another name'
complete -c tidings -n "__fish_tidings_using_subcommand devices; and __fish_seen_subcommand_from help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c tidings -n "__fish_tidings_using_subcommand recovery; and not __fish_seen_subcommand_from kit help" -l app -d 'The app whose data is meant' -r
complete -c tidings -n "__fish_tidings_using_subcommand recovery; and not __fish_seen_subcommand_from kit help" -l home -d 'The directory of the daemon: its store, keys, configuration and socket. Without it: the directories of your desktop' -r -F
complete -c tidings -n "__fish_tidings_using_subcommand recovery; and not __fish_seen_subcommand_from kit help" -l json -d 'Print JSON, one value per line'
complete -c tidings -n "__fish_tidings_using_subcommand recovery; and not __fish_seen_subcommand_from kit help" -s h -l help -d 'Print help'
complete -c tidings -n "__fish_tidings_using_subcommand recovery; and not __fish_seen_subcommand_from kit help" -f -a "kit" -d 'Make a recovery kit: twelve words that bring the account back when every computer is lost. One that was made before does not work any more then'
complete -c tidings -n "__fish_tidings_using_subcommand recovery; and not __fish_seen_subcommand_from kit help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c tidings -n "__fish_tidings_using_subcommand recovery; and __fish_seen_subcommand_from kit" -l html -d 'Write a page to print into this file instead, as HTML; nobody but you can read it' -r -F
complete -c tidings -n "__fish_tidings_using_subcommand recovery; and __fish_seen_subcommand_from kit" -l app -d 'The app whose data is meant' -r
complete -c tidings -n "__fish_tidings_using_subcommand recovery; and __fish_seen_subcommand_from kit" -l home -d 'The directory of the daemon: its store, keys, configuration and socket. Without it: the directories of your desktop' -r -F
complete -c tidings -n "__fish_tidings_using_subcommand recovery; and __fish_seen_subcommand_from kit" -l json -d 'Print JSON, one value per line'
complete -c tidings -n "__fish_tidings_using_subcommand recovery; and __fish_seen_subcommand_from kit" -s h -l help -d 'Print help'
complete -c tidings -n "__fish_tidings_using_subcommand recovery; and __fish_seen_subcommand_from help" -f -a "kit" -d 'Make a recovery kit: twelve words that bring the account back when every computer is lost. One that was made before does not work any more then'
complete -c tidings -n "__fish_tidings_using_subcommand recovery; and __fish_seen_subcommand_from help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c tidings -n "__fish_tidings_using_subcommand recover" -l account -d 'The account, as the recovery kit names it; without it, it is asked for' -r
complete -c tidings -n "__fish_tidings_using_subcommand recover" -l entries -d 'How many entries the recovery kit names: tells whether the server hides later ones' -r
complete -c tidings -n "__fish_tidings_using_subcommand recover" -l revoke -d 'A computer that is lost, to be unlinked at once; may be given several times. On a terminal it asks' -r
complete -c tidings -n "__fish_tidings_using_subcommand recover" -l ca -d 'The certificate authority that vouches for the server, as a PEM file; without it, those of the system do' -r -F
complete -c tidings -n "__fish_tidings_using_subcommand recover" -l name -d 'What the other computers call this one; without it, its host name' -r
complete -c tidings -n "__fish_tidings_using_subcommand recover" -l keystore -d 'Where the keys lie; without it, in the desktop\'s keychain if it answers' -r -f -a "keychain\t''
file\t''"
complete -c tidings -n "__fish_tidings_using_subcommand recover" -l app -d 'The app whose data is meant' -r
complete -c tidings -n "__fish_tidings_using_subcommand recover" -l home -d 'The directory of the daemon: its store, keys, configuration and socket. Without it: the directories of your desktop' -r -F
complete -c tidings -n "__fish_tidings_using_subcommand recover" -l json -d 'Print JSON, one value per line'
complete -c tidings -n "__fish_tidings_using_subcommand recover" -s h -l help -d 'Print help'
complete -c tidings -n "__fish_tidings_using_subcommand status" -l app -d 'The app whose data is meant' -r
complete -c tidings -n "__fish_tidings_using_subcommand status" -l home -d 'The directory of the daemon: its store, keys, configuration and socket. Without it: the directories of your desktop' -r -F
complete -c tidings -n "__fish_tidings_using_subcommand status" -l json -d 'Print JSON, one value per line'
complete -c tidings -n "__fish_tidings_using_subcommand status" -s h -l help -d 'Print help'
complete -c tidings -n "__fish_tidings_using_subcommand doctor" -l app -d 'The app whose data is meant' -r
complete -c tidings -n "__fish_tidings_using_subcommand doctor" -l home -d 'The directory of the daemon: its store, keys, configuration and socket. Without it: the directories of your desktop' -r -F
complete -c tidings -n "__fish_tidings_using_subcommand doctor" -l json -d 'Print JSON, one value per line'
complete -c tidings -n "__fish_tidings_using_subcommand doctor" -s h -l help -d 'Print help'
complete -c tidings -n "__fish_tidings_using_subcommand apps" -l app -d 'The app whose data is meant' -r
complete -c tidings -n "__fish_tidings_using_subcommand apps" -l home -d 'The directory of the daemon: its store, keys, configuration and socket. Without it: the directories of your desktop' -r -F
complete -c tidings -n "__fish_tidings_using_subcommand apps" -l json -d 'Print JSON, one value per line'
complete -c tidings -n "__fish_tidings_using_subcommand apps" -s h -l help -d 'Print help'
complete -c tidings -n "__fish_tidings_using_subcommand tables" -l app -d 'The app whose data is meant' -r
complete -c tidings -n "__fish_tidings_using_subcommand tables" -l home -d 'The directory of the daemon: its store, keys, configuration and socket. Without it: the directories of your desktop' -r -F
complete -c tidings -n "__fish_tidings_using_subcommand tables" -l json -d 'Print JSON, one value per line'
complete -c tidings -n "__fish_tidings_using_subcommand tables" -s h -l help -d 'Print help'
complete -c tidings -n "__fish_tidings_using_subcommand get" -l app -d 'The app whose data is meant' -r
complete -c tidings -n "__fish_tidings_using_subcommand get" -l home -d 'The directory of the daemon: its store, keys, configuration and socket. Without it: the directories of your desktop' -r -F
complete -c tidings -n "__fish_tidings_using_subcommand get" -l json -d 'Print JSON, one value per line'
complete -c tidings -n "__fish_tidings_using_subcommand get" -s h -l help -d 'Print help'
complete -c tidings -n "__fish_tidings_using_subcommand put" -l id -d 'The row\'s id' -r
complete -c tidings -n "__fish_tidings_using_subcommand put" -l if-match -d 'Only if the row is still this version (`_ver.position`)' -r
complete -c tidings -n "__fish_tidings_using_subcommand put" -l app -d 'The app whose data is meant' -r
complete -c tidings -n "__fish_tidings_using_subcommand put" -l home -d 'The directory of the daemon: its store, keys, configuration and socket. Without it: the directories of your desktop' -r -F
complete -c tidings -n "__fish_tidings_using_subcommand put" -l json -d 'Print JSON, one value per line'
complete -c tidings -n "__fish_tidings_using_subcommand put" -s h -l help -d 'Print help'
complete -c tidings -n "__fish_tidings_using_subcommand patch" -l if-match -d 'Only if the row is still this version (`_ver.position`)' -r
complete -c tidings -n "__fish_tidings_using_subcommand patch" -l app -d 'The app whose data is meant' -r
complete -c tidings -n "__fish_tidings_using_subcommand patch" -l home -d 'The directory of the daemon: its store, keys, configuration and socket. Without it: the directories of your desktop' -r -F
complete -c tidings -n "__fish_tidings_using_subcommand patch" -l json -d 'Print JSON, one value per line'
complete -c tidings -n "__fish_tidings_using_subcommand patch" -s h -l help -d 'Print help'
complete -c tidings -n "__fish_tidings_using_subcommand delete" -l if-match -d 'Only if the row is still this version (`_ver.position`)' -r
complete -c tidings -n "__fish_tidings_using_subcommand delete" -l app -d 'The app whose data is meant' -r
complete -c tidings -n "__fish_tidings_using_subcommand delete" -l home -d 'The directory of the daemon: its store, keys, configuration and socket. Without it: the directories of your desktop' -r -F
complete -c tidings -n "__fish_tidings_using_subcommand delete" -l json -d 'Print JSON, one value per line'
complete -c tidings -n "__fish_tidings_using_subcommand delete" -s h -l help -d 'Print help'
complete -c tidings -n "__fish_tidings_using_subcommand query" -l filter -d 'Only rows that match, as JSON, such as \'{"done":false}\'' -r
complete -c tidings -n "__fish_tidings_using_subcommand query" -l sort -d 'The order: columns, `-` before one that falls' -r
complete -c tidings -n "__fish_tidings_using_subcommand query" -l limit -d 'Most rows, up to 1000' -r
complete -c tidings -n "__fish_tidings_using_subcommand query" -l after -d 'Go on after the page that ended with this `next`' -r
complete -c tidings -n "__fish_tidings_using_subcommand query" -l offset -d 'Skip this many rows' -r
complete -c tidings -n "__fish_tidings_using_subcommand query" -l app -d 'The app whose data is meant' -r
complete -c tidings -n "__fish_tidings_using_subcommand query" -l home -d 'The directory of the daemon: its store, keys, configuration and socket. Without it: the directories of your desktop' -r -F
complete -c tidings -n "__fish_tidings_using_subcommand query" -l total -d 'Say how many rows match in all'
complete -c tidings -n "__fish_tidings_using_subcommand query" -l json -d 'Print JSON, one value per line'
complete -c tidings -n "__fish_tidings_using_subcommand query" -s h -l help -d 'Print help'
complete -c tidings -n "__fish_tidings_using_subcommand watch" -l events -d 'Only these kinds of change' -r
complete -c tidings -n "__fish_tidings_using_subcommand watch" -l filter -d 'Only rows that match, as JSON' -r
complete -c tidings -n "__fish_tidings_using_subcommand watch" -l old -d 'Print the row as it was before, too' -r -f -a "none\t'No'
full\t'Yes'"
complete -c tidings -n "__fish_tidings_using_subcommand watch" -l since -d 'Go on after this event' -r
complete -c tidings -n "__fish_tidings_using_subcommand watch" -l app -d 'The app whose data is meant' -r
complete -c tidings -n "__fish_tidings_using_subcommand watch" -l home -d 'The directory of the daemon: its store, keys, configuration and socket. Without it: the directories of your desktop' -r -F
complete -c tidings -n "__fish_tidings_using_subcommand watch" -l json -d 'Print JSON, one value per line'
complete -c tidings -n "__fish_tidings_using_subcommand watch" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c tidings -n "__fish_tidings_using_subcommand import" -l id -d 'The column that holds each row\'s id' -r
complete -c tidings -n "__fish_tidings_using_subcommand import" -l root -d 'The key, or JSON Pointer, of the array in a JSON object' -r
complete -c tidings -n "__fish_tidings_using_subcommand import" -l table-from -d 'The column that names each row\'s table' -r
complete -c tidings -n "__fish_tidings_using_subcommand import" -l text -d 'A column that stays text whatever it looks like; may be given again' -r
complete -c tidings -n "__fish_tidings_using_subcommand import" -l format -d 'The format; without it, what the file\'s name says, else what its text looks like' -r -f -a "json\t'One JSON value: an array of rows, or an object with one array in it'
ndjson\t'One JSON object per line'
csv\t'Comma separated, with a header line'
tsv\t'Tab separated, with a header line'"
complete -c tidings -n "__fish_tidings_using_subcommand import" -l app -d 'The app whose data is meant' -r
complete -c tidings -n "__fish_tidings_using_subcommand import" -l home -d 'The directory of the daemon: its store, keys, configuration and socket. Without it: the directories of your desktop' -r -F
complete -c tidings -n "__fish_tidings_using_subcommand import" -l check -d 'Read and check the file, say what would be imported, and stop'
complete -c tidings -n "__fish_tidings_using_subcommand import" -l json -d 'Print JSON, one value per line'
complete -c tidings -n "__fish_tidings_using_subcommand import" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c tidings -n "__fish_tidings_using_subcommand export" -s o -l output -d 'The file to write; without it, standard output' -r -F
complete -c tidings -n "__fish_tidings_using_subcommand export" -l format -d 'The format; without it, what the file\'s name says, else NDJSON' -r -f -a "json\t'One JSON value: an array of rows, or an object with one array in it'
ndjson\t'One JSON object per line'
csv\t'Comma separated, with a header line'
tsv\t'Tab separated, with a header line'"
complete -c tidings -n "__fish_tidings_using_subcommand export" -l app -d 'The app whose data is meant' -r
complete -c tidings -n "__fish_tidings_using_subcommand export" -l home -d 'The directory of the daemon: its store, keys, configuration and socket. Without it: the directories of your desktop' -r -F
complete -c tidings -n "__fish_tidings_using_subcommand export" -l unsent -d 'Instead of a table, the rows of every app (or of the one named) that the server has not got as they are here: one JSON object a line, with app, table, id and the row'
complete -c tidings -n "__fish_tidings_using_subcommand export" -l versions -d 'Keep each row\'s version (`_ver`)'
complete -c tidings -n "__fish_tidings_using_subcommand export" -l json -d 'Print JSON, one value per line'
complete -c tidings -n "__fish_tidings_using_subcommand export" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c tidings -n "__fish_tidings_using_subcommand completions" -l app -d 'The app whose data is meant' -r
complete -c tidings -n "__fish_tidings_using_subcommand completions" -l home -d 'The directory of the daemon: its store, keys, configuration and socket. Without it: the directories of your desktop' -r -F
complete -c tidings -n "__fish_tidings_using_subcommand completions" -l json -d 'Print JSON, one value per line'
complete -c tidings -n "__fish_tidings_using_subcommand completions" -s h -l help -d 'Print help'
complete -c tidings -n "__fish_tidings_using_subcommand man" -l app -d 'The app whose data is meant' -r
complete -c tidings -n "__fish_tidings_using_subcommand man" -l home -d 'The directory of the daemon: its store, keys, configuration and socket. Without it: the directories of your desktop' -r -F
complete -c tidings -n "__fish_tidings_using_subcommand man" -l json -d 'Print JSON, one value per line'
complete -c tidings -n "__fish_tidings_using_subcommand man" -s h -l help -d 'Print help'
complete -c tidings -n "__fish_tidings_using_subcommand tied" -l app -d 'The app whose data is meant' -r
complete -c tidings -n "__fish_tidings_using_subcommand tied" -l home -d 'The directory of the daemon: its store, keys, configuration and socket. Without it: the directories of your desktop' -r -F
complete -c tidings -n "__fish_tidings_using_subcommand tied" -l json -d 'Print JSON, one value per line'
complete -c tidings -n "__fish_tidings_using_subcommand tied" -s h -l help -d 'Print help'
complete -c tidings -n "__fish_tidings_using_subcommand help; and not __fish_seen_subcommand_from demo daemon account login devices recovery recover status doctor apps tables get put patch delete query watch import export completions man tied help" -f -a "demo" -d 'Show on this one computer how a row travels between two: a server, two devices, real data'
complete -c tidings -n "__fish_tidings_using_subcommand help; and not __fish_seen_subcommand_from demo daemon account login devices recovery recover status doctor apps tables get put patch delete query watch import export completions man tied help" -f -a "daemon" -d 'Run the daemon in the foreground: it keeps the rows and syncs them'
complete -c tidings -n "__fish_tidings_using_subcommand help; and not __fish_seen_subcommand_from demo daemon account login devices recovery recover status doctor apps tables get put patch delete query watch import export completions man tied help" -f -a "account" -d 'Start an account on a server'
complete -c tidings -n "__fish_tidings_using_subcommand help; and not __fish_seen_subcommand_from demo daemon account login devices recovery recover status doctor apps tables get put patch delete query watch import export completions man tied help" -f -a "login" -d 'Link this computer to your account: shows a code to type on a linked one'
complete -c tidings -n "__fish_tidings_using_subcommand help; and not __fish_seen_subcommand_from demo daemon account login devices recovery recover status doctor apps tables get put patch delete query watch import export completions man tied help" -f -a "devices" -d 'List the linked computers, link a new one by its code, unlink or name one'
complete -c tidings -n "__fish_tidings_using_subcommand help; and not __fish_seen_subcommand_from demo daemon account login devices recovery recover status doctor apps tables get put patch delete query watch import export completions man tied help" -f -a "recovery" -d 'Make a recovery kit to print'
complete -c tidings -n "__fish_tidings_using_subcommand help; and not __fish_seen_subcommand_from demo daemon account login devices recovery recover status doctor apps tables get put patch delete query watch import export completions man tied help" -f -a "recover" -d 'Come back into your account with its recovery kit when every computer is lost'
complete -c tidings -n "__fish_tidings_using_subcommand help; and not __fish_seen_subcommand_from demo daemon account login devices recovery recover status doctor apps tables get put patch delete query watch import export completions man tied help" -f -a "status" -d 'Say what is synced and what is not'
complete -c tidings -n "__fish_tidings_using_subcommand help; and not __fish_seen_subcommand_from demo daemon account login devices recovery recover status doctor apps tables get put patch delete query watch import export completions man tied help" -f -a "doctor" -d 'Check everything that sync depends on and say what to do'
complete -c tidings -n "__fish_tidings_using_subcommand help; and not __fish_seen_subcommand_from demo daemon account login devices recovery recover status doctor apps tables get put patch delete query watch import export completions man tied help" -f -a "apps" -d 'List the apps that have data here'
complete -c tidings -n "__fish_tidings_using_subcommand help; and not __fish_seen_subcommand_from demo daemon account login devices recovery recover status doctor apps tables get put patch delete query watch import export completions man tied help" -f -a "tables" -d 'List the tables of an app'
complete -c tidings -n "__fish_tidings_using_subcommand help; and not __fish_seen_subcommand_from demo daemon account login devices recovery recover status doctor apps tables get put patch delete query watch import export completions man tied help" -f -a "get" -d 'Show a row'
complete -c tidings -n "__fish_tidings_using_subcommand help; and not __fish_seen_subcommand_from demo daemon account login devices recovery recover status doctor apps tables get put patch delete query watch import export completions man tied help" -f -a "put" -d 'Create or replace a row'
complete -c tidings -n "__fish_tidings_using_subcommand help; and not __fish_seen_subcommand_from demo daemon account login devices recovery recover status doctor apps tables get put patch delete query watch import export completions man tied help" -f -a "patch" -d 'Change columns of a row'
complete -c tidings -n "__fish_tidings_using_subcommand help; and not __fish_seen_subcommand_from demo daemon account login devices recovery recover status doctor apps tables get put patch delete query watch import export completions man tied help" -f -a "delete" -d 'Delete a row'
complete -c tidings -n "__fish_tidings_using_subcommand help; and not __fish_seen_subcommand_from demo daemon account login devices recovery recover status doctor apps tables get put patch delete query watch import export completions man tied help" -f -a "query" -d 'List rows of a table'
complete -c tidings -n "__fish_tidings_using_subcommand help; and not __fish_seen_subcommand_from demo daemon account login devices recovery recover status doctor apps tables get put patch delete query watch import export completions man tied help" -f -a "watch" -d 'Print changes of a table as they happen, from this computer or another, until Ctrl-C'
complete -c tidings -n "__fish_tidings_using_subcommand help; and not __fish_seen_subcommand_from demo daemon account login devices recovery recover status doctor apps tables get put patch delete query watch import export completions man tied help" -f -a "import" -d 'Read rows from a JSON, NDJSON or CSV file into tables'
complete -c tidings -n "__fish_tidings_using_subcommand help; and not __fish_seen_subcommand_from demo daemon account login devices recovery recover status doctor apps tables get put patch delete query watch import export completions man tied help" -f -a "export" -d 'Write the rows of a table as JSON, NDJSON or CSV'
complete -c tidings -n "__fish_tidings_using_subcommand help; and not __fish_seen_subcommand_from demo daemon account login devices recovery recover status doctor apps tables get put patch delete query watch import export completions man tied help" -f -a "completions" -d 'Print a completion script for a shell'
complete -c tidings -n "__fish_tidings_using_subcommand help; and not __fish_seen_subcommand_from demo daemon account login devices recovery recover status doctor apps tables get put patch delete query watch import export completions man tied help" -f -a "man" -d 'Write the man pages into a directory'
complete -c tidings -n "__fish_tidings_using_subcommand help; and not __fish_seen_subcommand_from demo daemon account login devices recovery recover status doctor apps tables get put patch delete query watch import export completions man tied help" -f -a "tied" -d 'Run a program that ends when the process that started it does'
complete -c tidings -n "__fish_tidings_using_subcommand help; and not __fish_seen_subcommand_from demo daemon account login devices recovery recover status doctor apps tables get put patch delete query watch import export completions man tied help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c tidings -n "__fish_tidings_using_subcommand help; and __fish_seen_subcommand_from account" -f -a "create" -d 'Start an account, with this computer as its first'
complete -c tidings -n "__fish_tidings_using_subcommand help; and __fish_seen_subcommand_from account" -f -a "show" -d 'Show this computer\'s account and server'
complete -c tidings -n "__fish_tidings_using_subcommand help; and __fish_seen_subcommand_from devices" -f -a "list" -d 'List the computers of the account'
complete -c tidings -n "__fish_tidings_using_subcommand help; and __fish_seen_subcommand_from devices" -f -a "add" -d 'Link the computer that shows this code'
complete -c tidings -n "__fish_tidings_using_subcommand help; and __fish_seen_subcommand_from devices" -f -a "revoke" -d 'Unlink computers that are lost or not used any more: they can read nothing new from then on'
complete -c tidings -n "__fish_tidings_using_subcommand help; and __fish_seen_subcommand_from devices" -f -a "rename" -d 'Give a computer another name'
complete -c tidings -n "__fish_tidings_using_subcommand help; and __fish_seen_subcommand_from recovery" -f -a "kit" -d 'Make a recovery kit: twelve words that bring the account back when every computer is lost. One that was made before does not work any more then'
