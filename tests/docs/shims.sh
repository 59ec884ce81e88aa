# What readers may do as root on a machine of their own, and a test must not do to this one: packages are not installed
# but looked for (where there is dpkg), and what would be installed for all goes to a folder.
sudo() { DESTDIR="$HOME/all" "$@"; }
apt-get() {
    local word missing=""
    command -v dpkg-query >/dev/null || return 0
    for word in "$@"; do
        case $word in
            -* | install | update) continue ;;
            pkg-config) command -v pkg-config >/dev/null || missing="$missing $word" ;;
            *) dpkg-query -W -f '${db:Status-Status}' "$word" 2>/dev/null | grep -qx installed || missing="$missing $word" ;;
        esac
    done
    [ -z "$missing" ] || { echo "not installed here:$missing"; return 1; }
}
ldconfig() { :; }
# The sources are compiled as build/default is: a compiler cache has it all then.
cmake() {
    case "$1 ${2:-}" in
        "-S .") command cmake "$@" -DCMAKE_BUILD_TYPE=RelWithDebInfo -DPCCL_WERROR=ON ;;
        *) command cmake "$@" ;;
    esac
}
