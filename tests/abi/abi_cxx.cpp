/* Compiles only if the headers, as C++11 sees them, have the values and layouts of claims.h. */
#include "ccoip.h"
#include "pccl.h"

#include <type_traits>

#define ENUM(type) static_assert(sizeof(type) == 4, #type);
#define VALUE(name, value) static_assert((name) == (value), #name);
#define STRUCT(type, bytes, alignment)                                                                                 \
    static_assert(sizeof(type) == (bytes) && alignof(type) == (alignment), #type);                                     \
    static_assert(std::is_standard_layout<type>::value && std::is_trivial<type>::value, #type);
#define MEMBER(type, name, offset, bytes)                                                                              \
    static_assert(offsetof(type, name) == (offset) && sizeof(type::name) == (bytes), #type "." #name);
#define FUNCTION(name, parameters) static_assert(std::is_same<decltype(name), pcclResult_t parameters>::value, #name);

#include "claims.h"

pcclParameterInfo_t claim_info = PCCL_PARAMETER_INFO_INIT;
