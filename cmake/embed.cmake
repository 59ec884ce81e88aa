# Writes the file FROM as an array of bytes to the C source TO (src/ops/dashboard.h declares it).
file(READ ${FROM} bytes HEX)
string(REGEX REPLACE "(................................)" "\\1\n" bytes "${bytes}")
string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," bytes "${bytes}")
file(WRITE ${TO} "#include \"ops/dashboard.h\"\n\nconst uint8_t pccl_dashboard[] = {\n${bytes}};\n"
    "const size_t pccl_dashboard_bytes = sizeof pccl_dashboard;\n")
