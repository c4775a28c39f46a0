/** For tests: what the shell of a user may have exported, each of which would break or redirect a program of ours. */
export const hostileEnvironment = {
  KUBECONFIG: '/nonexistent/kubeconfig',
  NODE_NAME: 'production',
  NODE_OPTIONS: '--require=/nonexistent/hook.cjs',
  http_proxy: 'http://192.0.2.1:3128',
  https_proxy: 'http://192.0.2.1:3128',
  HTTPS_PROXY: 'http://192.0.2.1:3128',
  NO_PROXY: 'production.example.com',
  LC_ALL: 'tr_TR.UTF-8',
  LVM_SYSTEM_DIR: '/nonexistent/lvm',
  LVM_SUPPRESS_FD_WARNINGS: '',
  LVM_VG_NAME: 'production',
  DM_DEV_DIR: '/nonexistent/dev',
};
