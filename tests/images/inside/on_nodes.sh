#!/bin/sh
# Start a program on this node and the one whose address is given, a rank on each.
set -eu
address=$1
shift
# SSH wants a key that nobody else may read, as root's.
install -m 600 /work/ssh/key /tmp/key
export OMPI_MCA_plm_rsh_args="-i /tmp/key -o StrictHostKeyChecking=no -o ConnectTimeout=20"
own=$(hostname --ip-address | cut -d ' ' -f 1)
# A shell on the other node has not what an image's programs have.
exec mpirun -np 2 -H "$own:1,$address:1" -x PATH -x PYTHONPATH -x PYTHONDONTWRITEBYTECODE \
    --wdir /work "$@"
